"""A node as an operator sees it, from what the registry and the ledger know."""

from __future__ import annotations

from dragoman.ids import NodeId
from dragoman.live.fleet import FarNode, Node
from dragoman.live.ledger import Ledger, SeatRecord
from dragoman.live.protocol import MarkView, NodeHealth, NodeSlots, NodeView, utc_time
from dragoman.live.snapshot import PoolRule, node_pairs

Seats = dict[NodeId, SeatRecord]


class Seating:
    """The seats of the cells that one request looks at, each cell read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cells: dict[int, Seats] = {}

    async def of(self, cell: int) -> Seats:
        seats = self._cells.get(cell)
        if seats is None:
            record = await self._ledger.read_cell(cell)
            seats = {seat.node_id: seat for seat in record.seats} if record else {}
            self._cells[cell] = seats
        return seats


def node_view(node: Node | FarNode, seat: SeatRecord | None, rule: PoolRule) -> NodeView:
    """The node and its slots; one that has no seat holds none of them."""
    used = seat.held if seat else 0
    pairs = node_pairs(rule, node.facts())
    return NodeView(
        node_id=node.node_id,
        status=_status(node, seat),
        slots=NodeSlots(total=node.slots, used=used, free=max(0, node.slots - used)),
        pools=tuple(sorted(f"{source}:{target}" for source, target in pairs)),
        cell=node.cell,
        services=node.services,
        languages=node.languages,
        features=tuple(sorted(node.features)),
        marks=tuple(
            MarkView(mark.service_id, mark.reason, utc_time(mark.expires_at_ms))
            for mark in node.marks
        ),
        last_seen=utc_time(node.last_seen_ms),
        instance_id=node.owner.instance_id,
    )


def _status(node: Node | FarNode, seat: SeatRecord | None) -> NodeHealth:
    """How the node is; that it was drained is read from its cell before news of it arrive."""
    if seat is not None and seat.drained and node.status is not NodeHealth.OFFLINE:
        return NodeHealth.DRAINING
    return node.status
