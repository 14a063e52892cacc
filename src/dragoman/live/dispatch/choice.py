"""Which nodes may carry a job, in which order they are asked, and why the others are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.ids import NodeId, TenantId
from dragoman.live.ledger import Granted
from dragoman.live.protocol import AttemptExplanation, ExclusionReason, LeftOut
from dragoman.live.snapshot import CellView, Requirement, RuntimeSnapshot

MAX_NAMED = 100
"""How many nodes an explanation names for one reason."""

Mask = tuple[int, int]
"""(cell, candidates)."""


class Wish(msgspec.Struct, frozen=True):
    """What a job wants of the choice, besides what it requires."""

    excluded: frozenset[NodeId] = frozenset()
    """Nodes that failed it, or that the caller does not want."""
    spread: NodeId | None = None
    """The node that served the conversation last."""

    def __bool__(self) -> bool:
        return bool(self.excluded) or self.spread is not None


NO_WISH = Wish()


def candidates(view: CellView, requirement: Requirement, wish: Wish) -> int:
    """The nodes of a cell that may be asked for a slot."""
    fit = view.fit(requirement)
    if fit and wish:
        fit &= ~view.mask(wish.excluded)
        if wish.spread is not None:
            fit &= ~view.mask((wish.spread,))
    return fit


def own_node(view: CellView, node_id: NodeId, tenant: TenantId) -> int:
    """The bit of a node that takes no public jobs but those of its own tenant that name it."""
    bit = view.mask((node_id,))
    if not bit:
        return 0
    facts = view.nodes[bit.bit_length() - 1]
    return bit if not facts.public and facts.tenant == tenant else 0


class Decision:
    """One try at choosing: what was looked at, kept so that it can be explained later."""

    __slots__ = (
        "chosen",
        "headroom",
        "looked_at",
        "own",
        "reasons_found",
        "requirement",
        "snapshot",
        "spared",
        "sparing",
        "whole",
        "wish",
    )

    def __init__(
        self,
        snapshot: RuntimeSnapshot,
        requirement: Requirement,
        wish: Wish,
        own: Mask | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.requirement = requirement
        self.wish = wish
        self.own = own
        """The tenant's own node that the job names, where it takes no public jobs."""
        self.looked_at: list[int] = []
        self.chosen: NodeId | None = None
        self.headroom = False
        self.sparing = False
        """Nodes that rest are not asked, as long as others may be."""
        self.spared = False
        """There were such nodes."""
        self.whole = False
        """The job was refused: every cell counts, not only those looked at."""
        self.reasons_found: dict[ExclusionReason, tuple[int, list[NodeId]]] | None = None
        """Why nodes were left out, once that was asked."""

    def knows(self, granted: Granted) -> bool:
        """Whether the seat that was granted is the node's that was chosen."""
        view = self.snapshot.cells.get(granted.cell)
        facts = view.nodes.get(granted.index) if view is not None else None
        return facts is not None and facts.node_id == granted.node_id

    def reasons(self) -> dict[ExclusionReason, tuple[int, list[NodeId]]]:
        """Each node left out, under the first reason that holds; asked when all is decided."""
        if self.reasons_found is None:
            self.reasons_found = {} if self.left_nobody_out else self._find_reasons()
        return self.reasons_found

    def _find_reasons(self) -> dict[ExclusionReason, tuple[int, list[NodeId]]]:
        found: dict[ExclusionReason, tuple[int, list[NodeId]]] = {}
        for view, reason, mask in self.left_out():
            count, nodes = found.get(reason, (0, []))
            if len(nodes) < MAX_NAMED:
                nodes = nodes + view.node_ids(mask)[: MAX_NAMED - len(nodes)]
            found[reason] = (count + mask.bit_count(), nodes)
        return {reason: found[reason] for reason in ExclusionReason if reason in found}

    def left_out(self) -> Iterator[tuple[CellView, ExclusionReason, int]]:
        """Cell by cell, the bits of the nodes left out for each reason."""
        cells = self.snapshot.cells
        for number in sorted(cells) if self.whole else self.looked_at:
            view = cells.get(number)
            if view is not None:
                for reason, mask in self._left_out(view).items():
                    yield view, reason, mask

    def looks_at(self, cells: Iterable[int]) -> None:
        """Remember which cells were asked, the last one last."""
        for cell in cells:
            if cell in self.looked_at:
                self.looked_at.remove(cell)
            self.looked_at.append(cell)

    def fit(self, view: CellView) -> int:
        """Nodes of the cell that may carry the job, slots and wishes aside."""
        return view.fit(self.requirement, welcome=self.welcome(view))

    def candidates(self, view: CellView) -> int:
        """The nodes of a cell that may be asked for a slot."""
        found = candidates(view, self.requirement, self.wish)
        if view.resting and self.sparing and found & view.resting:
            self.spared = True
            found &= ~view.resting
        return found

    def welcome(self, view: CellView) -> int:
        """The bit of the tenant's own node, in its cell."""
        return self.own[1] if self.own is not None and self.own[0] == view.number else 0

    @property
    def left_nobody_out(self) -> bool:
        """Whether, at a glance, every node of the cells looked at was fit and one was chosen."""
        if self.chosen is None or self.wish or self.own is not None or len(self.looked_at) != 1:
            return False
        view = self.snapshot.cells.get(self.looked_at[0])
        return view is None or not view.left_out(self.requirement)

    def counts(self) -> dict[str, int]:
        return {reason.value: count for reason, (count, _) in self.reasons().items()}

    def explanation(self, attempt: int) -> AttemptExplanation:
        return AttemptExplanation(
            attempt=attempt,
            snapshot_version=self.snapshot.version,
            pool=self.requirement.shown,
            shards_tried=tuple(self.looked_at),
            reasons={
                reason: LeftOut(count, tuple(nodes))
                for reason, (count, nodes) in self.reasons().items()
            },
            chosen=self.chosen,
        )

    def _left_out(self, view: CellView) -> dict[ExclusionReason, int]:
        """The cell's breakdown with the wish's exclusions and the slots put in their places."""
        excluded = view.mask(self.wish.excluded)
        found: dict[ExclusionReason, int] = {}
        if excluded:
            found[ExclusionReason.EXCLUDED] = excluded
        for reason, mask in view.left_out(self.requirement, welcome=self.welcome(view)).items():
            if left := mask & ~excluded:
                found[reason] = left
        fit = self.fit(view) & ~excluded
        if self.wish.spread is not None and (spread := fit & view.mask((self.wish.spread,))):
            found[ExclusionReason.SPREAD] = spread
            fit &= ~spread
        if self.chosen is not None and view.number == self.looked_at[-1]:
            return found
        if fit:
            reason = (
                ExclusionReason.RESERVED_HEADROOM if self.headroom else ExclusionReason.NO_FREE_SLOT
            )
            found[reason] = fit
        return found
