"""Choosing: which nodes may carry a job, in which order they are asked, and why others are not.

A choice is made on one snapshot, which does not change. It never waits: the ledger holds the slot.
Which of the candidates gets the job is the ledger's choice, by `[scheduler.selection] strategy`
(`dragoman.live.ledger`, `CHOICES`): it alone knows who has a free slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import msgspec

from dragoman.ids import NodeId, TenantId
from dragoman.live.dispatch.canary import Canaries, CanaryRoute
from dragoman.live.dispatch.job import Job, Mask
from dragoman.live.dispatch.routes import Route, drawn_order, hashed_shard
from dragoman.live.protocol import (
    AttemptExplanation,
    CandidateNodes,
    Cut,
    ExclusionReason,
    LeftOutNodes,
)
from dragoman.live.snapshot import (
    CellView,
    JobRequirement,
    PoolShards,
    RuntimeSnapshot,
    SnapshotHolder,
)
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

DEFAULT_TENANT = TenantId("default")
LENGTH_CUTS = (Cut.MAX_DURATION, Cut.MAX_BYTES)

MAX_NAMED = 100
"""How many nodes an explanation names for one reason."""

NO_NODES: frozenset[NodeId] = frozenset()


class SelectionRules(msgspec.Struct, frozen=True):
    """How nodes are chosen; from the settings."""

    spread_window_seconds: float | None
    """None: conversations are not spread."""
    by_hash: bool
    """A session stays with the shard its hash falls on."""
    tenant_cells: Mapping[str, tuple[int, ...]]
    affinity_ttl_seconds: float
    """How long the rest of a sentence that was cut for its length stays with its node."""
    prefer_local: bool = False
    """Nodes of this instance come first, among several instances."""
    canaries: tuple[CanaryRoute, ...] = ()


class Decision(msgspec.Struct, eq=False, gc=False):
    """One round of choosing: what was looked at, kept so that it can be explained later.

    It keeps the cells that it looked at, which do not change, and not the fleet around them.
    """

    version: int
    requirement: JobRequirement
    excluded: frozenset[NodeId]
    """Nodes that failed the job, or that its caller does not want."""
    spread: NodeId | None
    """The node that served the conversation last."""
    own: Mask | None
    """The tenant's own node that the job names, where it takes no public jobs."""
    views: list[CellView]
    """The cells that were asked, the last one last; all cells, when no slot was found."""
    chosen: NodeId | None = None
    headroom: bool = False
    """Slots were free, but kept back for live work."""
    spared: bool = False
    """Nodes that rest were not asked, because others could be."""
    left_none_out: bool = False
    """Every node of the one cell looked at was fit; False: look."""

    @property
    def pool(self) -> str:
        return self.requirement.shown

    # --- who may be asked -----------------------------------------------------------------------

    def fit(self, view: CellView) -> int:
        """Nodes of the cell that may carry the job, slots and wishes aside."""
        return view.fit(self.requirement, self.welcome(view))

    def candidates(self, view: CellView, *, spare_resting: bool) -> int:
        """Nodes of the cell that may be asked for a slot."""
        found = view.fit(self.requirement)
        if found and self.excluded:
            found &= ~view.mask(self.excluded)
        if found and self.spread is not None:
            found &= ~view.mask((self.spread,))
        if spare_resting and found & view.resting:
            self.spared = True
            found &= ~view.resting
        return found

    def welcome(self, view: CellView) -> int:
        """The bit of the tenant's own node, in its cell."""
        return self.own[1] if self.own is not None and self.own[0] == view.number else 0

    # --- who was left out -----------------------------------------------------------------------

    def left_out(self) -> Iterator[tuple[CellView, ExclusionReason, int]]:
        """Cell by cell, the bits of the nodes left out, each under the first reason that holds."""
        for view in self.views:
            excluded = view.mask(self.excluded)
            if excluded:
                yield view, ExclusionReason.EXCLUDED, excluded
            for reason, mask in view.left_out(self.requirement, self.welcome(view)).items():
                if mask & ~excluded:
                    yield view, reason, mask & ~excluded
            fit = self.fit(view) & ~excluded
            if self.spread is not None and (spread := fit & view.mask((self.spread,))):
                yield view, ExclusionReason.SPREAD, spread
                fit &= ~spread
            if self.chosen is not None and view is self.views[-1]:
                continue
            if fit and self.headroom:
                yield view, ExclusionReason.RESERVED_HEADROOM, fit
            elif fit:
                yield view, ExclusionReason.NO_FREE_SLOT, fit

    def reasons(self) -> dict[ExclusionReason, tuple[int, list[NodeId]]]:
        """For each reason, how many nodes it kept out, and some of them."""
        found: dict[ExclusionReason, tuple[int, list[NodeId]]] = {}
        for view, reason, mask in self.left_out():
            count, nodes = found.get(reason, (0, []))
            if len(nodes) < MAX_NAMED:
                nodes = nodes + view.node_ids(mask)[: MAX_NAMED - len(nodes)]
            found[reason] = (count + mask.bit_count(), nodes)
        return {reason: found[reason] for reason in ExclusionReason if reason in found}

    def counts(self) -> dict[str, int]:
        return {reason.value: count for reason, (count, _) in self.reasons().items()}

    def explanation(
        self, attempt: int, tried: tuple[int, ...], *, local_first: bool = False
    ) -> AttemptExplanation:
        """local_first: nodes of this instance came first."""
        return AttemptExplanation(
            attempt=attempt,
            snapshot_version=self.version,
            pool=self.pool,
            shards_tried=tried,
            reasons={
                reason: LeftOutNodes(count, tuple(nodes))
                for reason, (count, nodes) in self.reasons().items()
            },
            chosen=self.chosen,
            services=dict(self.requirement.services),
            local=self._is_here(self.chosen) if local_first and self.chosen else None,
            candidates=self._candidates_drawn(),
        )

    def _candidates_drawn(self) -> CandidateNodes | None:
        """The nodes of the last cell that was asked among which the ledger chose."""
        if self.chosen is None:
            return None
        view = self.views[-1]
        found = self.fit(view) & ~view.mask(self.excluded)
        if self.spread is not None:
            found &= ~view.mask((self.spread,))
        if self.spared:
            found &= ~view.resting
        found |= view.mask((self.chosen,))
        return CandidateNodes(found.bit_count(), tuple(view.node_ids(found)[:MAX_NAMED]))

    def _is_here(self, node_id: NodeId) -> bool:
        """Whether the node is connected to this instance."""
        return any(view.here & view.mask((node_id,)) for view in self.views)


class Aim(msgspec.Struct, frozen=True):
    """Where the jobs of one requirement are sent at first."""

    view: CellView | None = None
    """The one cell that is asked; None: they need a search."""
    cells: tuple[Mask, ...] = ()
    all_fit: bool = False
    """Every node of the cell may carry them."""
    many: bool = False
    """There are several cells, and each job has its own."""


_NO_AIM = Aim()
_EACH_ITS_OWN = Aim(many=True)
_AIMS = 1_024
"""Requirements whose aim is remembered."""


class Search:
    """A job looks for a node: in rounds, each wider than the one before.

    The nodes it names, then the shard it belongs to, then the others; first with its exclusions
    and without nodes that rest, then with all that are fit.
    """

    __slots__ = ("asked", "decisions", "headroom", "job", "rounds", "snapshot", "tried")

    def __init__(self, job: Job, snapshot: RuntimeSnapshot) -> None:
        self.job = job
        self.snapshot = snapshot
        self.decisions: list[Decision] = []
        self.tried: list[list[int]] = []
        """The cells of each decision, in the order they were asked."""
        self.asked: dict[int, int] = {}
        """Every node that could take the job if it had a slot, by cell."""
        self.headroom = False
        """Slots were free, but kept back for live work."""
        self.rounds: Iterator[tuple[Mask, ...]] = iter(())

    @property
    def main(self) -> Decision:
        """The first choice that was not for a canary: it says why no node took the job."""
        canary = self.job.canary
        return next(one for one in self.decisions if one.requirement is not canary)

    @property
    def is_for_canary(self) -> bool:
        """Whether the canary's nodes are being asked."""
        canary = self.job.canary
        return canary is not None and self.decisions[-1].requirement is canary

    def begin(self, decision: Decision) -> None:
        """Another choice is made."""
        self.decisions.append(decision)
        self.tried.append([])

    def full(self, cells: tuple[Mask, ...], *, headroom: bool) -> None:
        """No slot was free on these candidates."""
        if self.is_for_canary:
            for number, _ in cells:
                self._looked_at(number)
            return  # No batch work gives way for a canary.
        self.headroom = self.headroom or headroom
        for number, mask in cells:
            self.asked[number] = self.asked.get(number, 0) | mask
            self._looked_at(number)

    def placed(self, cells: tuple[Mask, ...], cell: int, node_id: NodeId) -> None:
        """A slot was found: the cells asked before it count as looked at."""
        for number, _ in cells:
            self._looked_at(number)
            if number == cell:
                break
        last = self.decisions[-1]
        last.chosen = node_id
        for decision, numbers in zip(self.decisions, self.tried, strict=True):
            decision.views = self._views(numbers)

    def vain(self) -> None:
        """No slot was found: every cell of the fleet counts."""
        for decision in self.decisions:
            decision.headroom = self.headroom
            decision.views = self._views(sorted(self.snapshot.cells))

    def _looked_at(self, number: int) -> None:
        tried = self.tried[-1]
        if number in tried:
            tried.remove(number)
        tried.append(number)

    def _views(self, numbers: list[int]) -> list[CellView]:
        cells = self.snapshot.cells
        return [cells[number] for number in numbers if number in cells]


class Selector:
    """Finds the candidates of jobs."""

    def __init__(
        self,
        snapshots: SnapshotHolder,
        rules: SelectionRules,
        random: Random,
        canaries: Canaries,
    ) -> None:
        self._snapshots = snapshots
        self._canaries = canaries
        self._has_canaries = bool(canaries)
        self._rules = rules
        self._random = random
        self._spreads = rules.spread_window_seconds is not None
        self._aims: dict[JobRequirement, Aim] = {}
        self._aims_of: RuntimeSnapshot | None = None
        """The snapshot that the aims were taken on."""

    def aim(self, job: Job) -> bool:
        """Aim the job at the one cell that is tried first, where there is no more to weigh.

        Most jobs go this way. False: the job needs a search.
        """
        route = job.route
        if job.excluded or job.spec.preferred_node_id is not None:
            return False
        if route is not None and (route.affinity_node is not None or self._spreads):
            return False
        if self._has_canaries and self._canaries.plan(job.requirement) is not None:
            return False
        snapshot = self._snapshots.current
        if snapshot is not self._aims_of:
            self._aims_of = snapshot
            self._aims.clear()
        requirement = job.requirement
        aim = self._aims.get(requirement)
        if aim is None:
            aim = self._take_aim(snapshot, requirement, snapshot.shards(requirement).cells)
        if aim.many:
            number = self._first_cell(job, snapshot.shards(requirement))
            aim = self._take_aim(snapshot, requirement, (number,))
        if aim.view is None:
            return False
        job.decision = Decision(
            snapshot.version,
            requirement,
            NO_NODES,
            None,
            None,
            [aim.view],
            left_none_out=aim.all_fit,
        )
        job.cells = aim.cells
        return True

    def _take_aim(
        self, snapshot: RuntimeSnapshot, requirement: JobRequirement, numbers: tuple[int, ...]
    ) -> Aim:
        """What jobs of a requirement are aimed at; remembered for as long as the snapshot lasts
        where there is but one cell."""
        if len(numbers) > 1:
            aim = _EACH_ITS_OWN
        else:
            view = snapshot.cells.get(numbers[0]) if numbers else None
            mask = view.fit(requirement) if view is not None else 0
            if view is None or not mask or view.resting:
                aim = _NO_AIM
            else:
                aim = Aim(view, ((view.number, mask),), all_fit=not view.left_out(requirement))
            if numbers and len(snapshot.shards(requirement).cells) > 1:
                return aim
        if len(self._aims) >= _AIMS:
            self._aims.clear()
        self._aims[requirement] = aim
        return aim

    def search(self, job: Job, now: float) -> Search:
        """Begin a search on the snapshot of this moment."""
        search = Search(job, self._snapshots.current)
        search.rounds = self._rounds(search, now)
        return search

    def sentence_goes_on(self, job: Job, route: Route, node_id: NodeId, now: float) -> None:
        """Keep a sentence that was cut for its length with its node, until it is over."""
        if job.spec.cut in LENGTH_CUTS:
            route.bind(self._rules.affinity_ttl_seconds, now)
            log.info("affinity_set", session_id=job.spec.session_id, node_id=node_id)
        elif (before := route.unbind()) is not None:
            log.info("affinity_cleared", session_id=job.spec.session_id, node_id=before)

    # --- inside ---------------------------------------------------------------------------------

    def _rounds(self, search: Search, now: float) -> Iterator[tuple[Mask, ...]]:
        job = search.job
        own = self._own_node(job)
        spread = self._to_avoid(job, now)
        version = search.snapshot.version
        if job.canary is not None:
            tried_out = Decision(version, job.canary, job.excluded, None, None, [])
            search.begin(tried_out)
            yield from self._round(search, tried_out, spare_resting=True)
        requirement = self._steady(job, search.snapshot)
        first = Decision(version, requirement, job.excluded, spread, own, [])
        search.begin(first)
        yield from self._round(search, first, spare_resting=True)
        if job.excluded or spread is not None or first.spared:
            second = Decision(version, requirement, NO_NODES, None, own, [])
            search.begin(second)
            yield from self._round(search, second, spare_resting=False)

    def _steady(self, job: Job, snapshot: RuntimeSnapshot) -> JobRequirement:
        """What the job asks of a node that is no canary, as long as there is one."""
        requirement = job.requirement
        if not self._has_canaries or job.spec.preferred_node_id is not None:
            return requirement
        plan = self._canaries.plan(requirement)
        if plan is None:
            return requirement
        # A canary that is all there is serves every job, but not those that it failed.
        cells = snapshot.cells
        is_there = job.left_canary or any(
            number in cells and cells[number].fit(plan.steady)
            for number in snapshot.shards(requirement).cells
        )
        return plan.steady if is_there else requirement

    def _round(
        self, search: Search, decision: Decision, *, spare_resting: bool
    ) -> Iterator[tuple[Mask, ...]]:
        job, cells = search.job, search.snapshot.cells
        for node_id in self._named(job):
            view = self._snapshots.find(node_id)
            if view is None or node_id in decision.excluded:
                continue
            bit = decision.fit(view) & view.mask((node_id,))
            if bit:
                yield ((view.number, bit),)
        shards = search.snapshot.shards(job.requirement)
        if not shards.cells:
            return
        first = self._first_cell(job, shards)
        view = cells.get(first)
        mask = decision.candidates(view, spare_resting=spare_resting) if view is not None else 0
        if mask:
            yield ((first, mask),)
        elif len(shards.cells) == 1:
            search.tried[-1].append(first)
            return
        others = tuple(
            (number, mask)
            for number in drawn_order(first, shards, self._random)
            if (view := cells.get(number)) is not None
            and (mask := decision.candidates(view, spare_resting=spare_resting))
        )
        if others:
            yield others

    def _named(self, job: Job) -> Iterator[NodeId]:
        if job.spec.preferred_node_id is not None:
            yield job.spec.preferred_node_id
        if job.route is not None and (affinity := job.route.affinity(job.began)) is not None:
            yield affinity

    def _own_node(self, job: Job) -> Mask | None:
        """The node the job names, when it is the tenant's own and takes no public jobs."""
        node_id = job.spec.preferred_node_id
        view = self._snapshots.find(node_id) if node_id is not None else None
        if node_id is None or view is None:
            return None
        bit = view.mask((node_id,))
        facts = view.nodes[bit.bit_length() - 1] if bit else None
        if facts is None or facts.public or facts.tenant != job.tenant:
            return None
        return view.number, bit

    def _to_avoid(self, job: Job, now: float) -> NodeId | None:
        window = self._rules.spread_window_seconds
        if window is None or job.route is None:
            return None
        return job.route.to_avoid(window, now)

    def _first_cell(self, job: Job, shards: PoolShards) -> int:
        """The shard that is tried first."""
        if len(shards.cells) == 1:
            return shards.cells[0]
        own = self._rules.tenant_cells.get(job.tenant)
        if own:
            mine = {cell: shards.members[cell] for cell in own if cell in shards.members}
            if mine:
                return PoolShards(mine).draw(self._random)
        if job.route is None:
            if self._rules.by_hash and job.tenant != DEFAULT_TENANT:
                return hashed_shard(job.tenant, shards)
            return shards.draw(self._random)
        kept = job.route.shard(job.requirement.pair, shards)
        if kept is None:
            if self._rules.by_hash:
                key = job.tenant if job.tenant != DEFAULT_TENANT else job.spec.session_id
                kept = hashed_shard(str(key), shards)
            else:
                kept = shards.draw(self._random)
            job.route.keep_shard(kept)
        return kept
