"""A node as an operator sees it, from what the registry and the ledger know."""

from __future__ import annotations

from itertools import islice

from dragoman.ids import NodeId
from dragoman.live.fleet import RegisteredNode, RemoteNode, Thresholds, why_no_jobs
from dragoman.live.ledger import SeatRecord, Seats
from dragoman.live.protocol import (
    MarkView,
    NodeHealth,
    NodePoolView,
    NodeSlots,
    NodeView,
    ResourceView,
    utc_time,
)
from dragoman.live.snapshot import PoolRule, count_pools, node_pools

POOLS_IN_LIST = 1_000
POOLS_ALONE = 10_000
"""Pairs that are shown of a node. One that knows hundreds of languages serves more, and they
would be megabytes."""

SeatsOfCell = dict[NodeId, SeatRecord]


class Seating:
    """The seats of the cells that one request looks at, each cell read once."""

    def __init__(self, ledger: Seats) -> None:
        self._ledger = ledger
        self._cells: dict[int, SeatsOfCell] = {}

    async def of(self, cell: int) -> SeatsOfCell:
        seats = self._cells.get(cell)
        if seats is None:
            record = await self._ledger.read_cell(cell)
            seats = {seat.node_id: seat for seat in record.seats} if record else {}
            self._cells[cell] = seats
        return seats


def node_view(
    node: RegisteredNode | RemoteNode,
    seat: SeatRecord | None,
    rule: PoolRule,
    thresholds: Thresholds,
    max_pools: int,
) -> NodeView:
    """The node and its slots; one that has no seat holds none of them."""
    used = seat.held if seat else 0
    return NodeView(
        node_id=node.node_id,
        status=shown_status(node, seat),
        reason=why_no_jobs(node, rule),
        resources={
            mean.resource: ResourceView(mean.mean_percent, thresholds.of(mean.resource), mean.over)
            for mean in node.resources
        },
        slots=NodeSlots(total=node.slots, used=used, free=max(0, node.slots - used)),
        pools=tuple(
            NodePoolView(pair, kinds)
            for pair, kinds in islice(node_pools(rule, node.languages), max_pools)
        ),
        pools_total=count_pools(rule, node.languages),
        cell=node.cell,
        services=node.services,
        languages=node.languages,
        features=tuple(sorted(node.features)),
        marks=tuple(
            MarkView(mark.service_id, mark.reason, utc_time(mark.expires_at_ms), mark.version)
            for mark in node.marks
        ),
        last_seen=utc_time(node.last_seen_ms),
        instance_id=node.owner.instance_id,
    )


def shown_status(node: RegisteredNode | RemoteNode, seat: SeatRecord | None) -> NodeHealth:
    """How the node is; that it was drained is read from its cell before news of it arrive."""
    if seat is not None and seat.drained and node.status is not NodeHealth.OFFLINE:
        return NodeHealth.DRAINING
    return node.status
