"""Finding a slot: which cells are asked, in which order, with which exclusions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

import msgspec

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import AttemptId, NodeId, TenantId, new_attempt_id
from dragoman.live.dispatch.choice import (
    NO_WISH,
    Decision,
    Mask,
    Wish,
    own_node,
)
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.refusal import refusal
from dragoman.live.dispatch.routes import drawn_order, hashed_shard
from dragoman.live.ledger import (
    Full,
    Gone,
    Granted,
    Ledger,
    Outlook,
    Preempting,
    SlotAsk,
    Strategy,
    Terms,
)
from dragoman.live.protocol import Cut, JobClass
from dragoman.live.snapshot import Shards, SnapshotHolder
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

DEFAULT_TENANT = TenantId("default")
LENGTH_CUTS = (Cut.MAX_DURATION, Cut.MAX_BYTES)


class Selection(msgspec.Struct, frozen=True):
    """How nodes are chosen; from the settings."""

    strategy: Strategy
    batch_headroom: float
    batch_max_preemptions: int
    spread_window_seconds: float | None
    """None: conversations are not spread."""
    by_hash: bool
    """A session stays with the shard its hash falls on."""
    tenant_cells: Mapping[str, tuple[int, ...]]
    affinity_ttl_seconds: float = 10.0
    """How long the rest of a sentence that was cut for its length stays with its node."""


class Allocated(msgspec.Struct, frozen=True):
    """A slot is held."""

    attempt_id: AttemptId
    granted: Granted
    decisions: tuple[Decision, ...]


class Inheriting(msgspec.Struct, frozen=True):
    """A batch attempt gives way; its slot will be the job's."""

    ask: SlotAsk
    preempting: Preempting
    decisions: tuple[Decision, ...]


class Refused(msgspec.Struct, frozen=True):
    """No node takes the job now."""

    error: errors.DragomanError
    decisions: tuple[Decision, ...]
    cold: frozenset[int]
    """Cells that lost their memory."""


class _Asked:
    """What asking the cells has shown so far."""

    def __init__(self) -> None:
        self.cold: frozenset[int] = frozenset()
        self.headroom = False
        self._masks: dict[int, int] = {}

    def full(self, cells: tuple[Mask, ...], answer: Full | Gone) -> None:
        """No slot was free on these candidates."""
        for number, mask in cells:
            self._masks[number] = self._masks.get(number, 0) | mask
        if isinstance(answer, Full):
            self.cold |= frozenset(answer.cold)
            self.headroom = self.headroom or answer.headroom

    @property
    def cells(self) -> tuple[Mask, ...]:
        """Every node that could take the job if it had a slot, in the order asked."""
        return tuple(self._masks.items())


class Allocator:
    """Looks for a slot, on one snapshot, without ever waiting for one."""

    def __init__(
        self,
        ledger: Ledger,
        snapshots: SnapshotHolder,
        terms: Terms,
        selection: Selection,
        clock: Clock,
        random: Random,
        cold: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """cold names the cells that are known to have lost their memory; None: we are alone."""
        self._ledger = ledger
        self._snapshots = snapshots
        self._terms = terms
        self._selection = selection
        self._clock = clock
        self._random = random
        self._cold = cold

    async def allocate(self, job: LiveJob) -> Allocated | Inheriting | Refused:
        """A slot for the job: first with its exclusions, then without."""
        attempt_id = new_attempt_id(self._random)
        asked = _Asked()
        own = self._own_node(job)
        first = Decision(self._snapshots.current, job.requirement, self._wish(job), own)
        first.sparing = True
        tries: tuple[Decision, ...] = (first,)
        granted = await self._try(job, attempt_id, first, asked)
        if granted is None and (first.wish or first.spared):
            second = Decision(first.snapshot, job.requirement, NO_WISH, own)
            tries = (first, second)
            granted = await self._try(job, attempt_id, second, asked)
        decision = tries[-1]
        if granted is not None:
            decision.chosen = granted.node_id
            return Allocated(attempt_id, granted, tries)
        for vain in tries:
            vain.headroom = asked.headroom
            vain.whole = True
        if job.spec.job_class is JobClass.LIVE and asked.cells:
            ask = self._ask(job, attempt_id, asked.cells)
            answer = await self._ledger.preempt(ask)
            if isinstance(answer, Granted):
                decision.chosen = answer.node_id
                decision.whole = False
                decision.looks_at((answer.cell,))
                return Allocated(attempt_id, answer, tries)
            if isinstance(answer, Preempting):
                return Inheriting(ask, answer, tries)
        outlook: Outlook | None = None
        if asked.cells:
            outlook = await self._ledger.outlook(asked.cells)
        cold = asked.cold.union(self._cold() if self._cold is not None else ())
        return Refused(refusal(first, outlook, cold=cold), tries, asked.cold)

    def served(self, job: LiveJob, node_id: NodeId, now: float) -> None:
        """Remember who serves the conversation; a sentence cut for its length stays there."""
        route = job.route
        if route is None:
            return
        route.served_by(node_id, now)
        if job.spec.cut in LENGTH_CUTS:
            route.bind(self._selection.affinity_ttl_seconds, now)
            log.info("affinity_set", session_id=job.spec.session_id, node_id=node_id)
        elif (before := route.unbind()) is not None:
            log.info("affinity_cleared", session_id=job.spec.session_id, node_id=before)

    async def _try(
        self, job: LiveJob, attempt_id: AttemptId, decision: Decision, asked: _Asked
    ) -> Granted | None:
        for node_id in self._named(job):
            view = self._snapshots.find(node_id)
            if view is None or node_id in decision.wish.excluded:
                continue
            bit = decision.fit(view) & view.mask((node_id,))
            if bit:
                granted = await self._reserve(
                    job, attempt_id, decision, ((view.number, bit),), asked
                )
                if granted is not None:
                    return granted
        shards = decision.snapshot.shards(job.requirement)
        if not shards.cells:
            return None
        cells = decision.snapshot.cells
        first = self._first_cell(job, shards)
        view = cells.get(first)
        mask = decision.candidates(view) if view is not None else 0
        if mask:
            granted = await self._reserve(job, attempt_id, decision, ((first, mask),), asked)
            if granted is not None:
                return granted
        elif len(shards.cells) == 1:
            decision.looks_at((first,))
            return None
        others = tuple(
            (number, mask)
            for number in drawn_order(first, shards, self._random)
            if (view := cells.get(number)) is not None and (mask := decision.candidates(view))
        )
        if not others:
            return None
        return await self._reserve(job, attempt_id, decision, others, asked)

    async def _reserve(
        self,
        job: LiveJob,
        attempt_id: AttemptId,
        decision: Decision,
        cells: tuple[Mask, ...],
        asked: _Asked,
    ) -> Granted | None:
        answer = await self._ledger.reserve(self._ask(job, attempt_id, cells))
        if self._cold is not None and isinstance(answer, Granted) and not decision.knows(answer):
            # Another instance has seated another node there, which may have other languages.
            await self._ledger.drop(answer.cell, attempt_id)
            answer = Full()
        if not isinstance(answer, Granted):
            decision.looks_at([number for number, _ in cells])
            asked.full(cells, answer)
            return None
        if len(cells) == 1:
            decision.looks_at((answer.cell,))
        else:
            numbers = [number for number, _ in cells]
            decision.looks_at(numbers[: numbers.index(answer.cell) + 1])
        return answer

    def _ask(self, job: LiveJob, attempt_id: AttemptId, cells: tuple[Mask, ...]) -> SlotAsk:
        terms, selection = self._terms, self._selection
        return SlotAsk(
            job.job_id,
            attempt_id,
            cells,
            job.spec.job_class,
            terms.ack_ms,
            terms.lease_ms,
            terms.run_ms,
            selection.strategy,
            selection.batch_headroom,
            job.preemptions,
            selection.batch_max_preemptions,
            terms.grace_ms,
        )

    def _named(self, job: LiveJob) -> Sequence[NodeId]:
        if job.spec.preferred_node_id is None and (job.route is None or not job.route.bound):
            return ()
        named = []
        if job.spec.preferred_node_id is not None:
            named.append(job.spec.preferred_node_id)
        if job.route is not None:
            affinity = job.route.affinity(job.began)
            if affinity is not None:
                named.append(affinity)
        return named

    def _own_node(self, job: LiveJob) -> Mask | None:
        """The node the job names, when it is the tenant's own and takes no public jobs."""
        node_id = job.spec.preferred_node_id
        view = self._snapshots.find(node_id) if node_id is not None else None
        if node_id is None or view is None:
            return None
        bit = own_node(view, node_id, job.tenant)
        return (view.number, bit) if bit else None

    def _wish(self, job: LiveJob) -> Wish:
        spread: NodeId | None = None
        window = self._selection.spread_window_seconds
        if window is not None and job.route is not None:
            spread = job.route.to_avoid(window, self._clock.monotonic())
        if spread is None and not job.excluded:
            return NO_WISH
        return Wish(job.excluded, spread)

    def _first_cell(self, job: LiveJob, shards: Shards) -> int:
        """The shard that is tried first."""
        if len(shards.cells) == 1:
            return shards.cells[0]
        own = self._selection.tenant_cells.get(job.tenant)
        if own:
            mine = {cell: shards.members[cell] for cell in own if cell in shards.members}
            if mine:
                return Shards(mine).draw(self._random)
        if job.route is None:
            if self._selection.by_hash and job.tenant != DEFAULT_TENANT:
                return hashed_shard(job.tenant, shards)
            return shards.draw(self._random)
        kept = job.route.shard(job.requirement.pair, shards)
        if kept is None:
            if self._selection.by_hash:
                key = job.tenant if job.tenant != DEFAULT_TENANT else job.spec.session_id
                kept = hashed_shard(str(key), shards)
            else:
                kept = shards.draw(self._random)
            job.route.keep_shard(kept)
        return kept
