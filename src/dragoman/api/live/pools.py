"""Pools over HTTP: which language pairs the fleet serves, and with how much room."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.node_views import Seating
from dragoman.api.paging import Paging, encode_cursor
from dragoman.auth import Permission, require
from dragoman.clock import Clock
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import ListPage, PoolSlots, PoolView, ShardView
from dragoman.live.snapshot import CellView, Pair, PoolRule, Shards, pool_languages
from dragoman.observability import yielding


def pools_router(prefix: str, plane: LivePlane, clock: Clock) -> APIRouter:
    """The routes of whoever plans for capacity."""
    router = APIRouter(
        prefix=f"{prefix}/pools",
        tags=["pools"],
        dependencies=[Depends(require(Permission.POOLS))],
    )

    @router.get(
        "",
        summary="Every pool, by language pair; slots are those of its ready nodes",
        response_class=Response,
        responses={200: {"model": shown_as("PoolPage", ListPage[PoolView])}},
    )
    async def pools(page: Paging) -> Response:
        snapshot = plane.snapshots.current
        after = page.position(tuple[str, str]) or ("", "")
        known = snapshot.pools()
        pairs = sorted(pair for pair in known if pair > after)
        seating = Seating(plane.ledger)
        items = [
            await _pool_view(pair, known[pair], snapshot.rule, snapshot.cells, seating, clock)
            for pair in pairs[: page.limit]
        ]
        more = len(pairs) > page.limit
        return answer(ListPage(items, encode_cursor(pairs[page.limit - 1]) if more else None))

    return router


async def _pool_view(
    pair: Pair,
    shards: Shards,
    rule: PoolRule,
    cells: dict[int, CellView],
    seating: Seating,
    clock: Clock,
) -> PoolView:
    ready = slots = free = 0
    async for number in yielding(shards.cells, clock):
        view = cells[number]
        seats = await seating.of(number)
        for node_id in view.node_ids(_members(view, rule, pair) & view.ready):
            ready += 1
            if (seat := seats.get(node_id)) is not None:
                slots += seat.slots
                free += max(0, seat.slots - seat.held)
    return PoolView(
        pair=":".join(pair),
        shards=tuple(ShardView(cell, nodes) for cell, nodes in shards.members.items()),
        nodes=shards.total,
        ready=ready,
        slots=PoolSlots(total=slots, free=free),
    )


def _members(view: CellView, rule: PoolRule, pair: Pair) -> int:
    """The bits of the pool's nodes in one cell."""
    found = view.members
    for spoken in pool_languages(rule, pair) or ():
        found &= view.spoken.get(spoken, 0)
    return found
