"""Pools over HTTP: which language pairs the fleet serves, and with how much room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.node_views import Seating
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import (
    ListPage,
    PoolKind,
    PoolNodesView,
    PoolSlots,
    PoolView,
    ShardView,
)
from dragoman.live.snapshot import CellView, Pair, RuntimeSnapshot, Spoken, pool_languages
from dragoman.observability import yielding

Members = Mapping[int, Mapping[PoolKind, int]]
"""By cell and kind, the bits of a pair's nodes."""


def pools_router(prefix: str, plane: LivePlane, clock: Clock) -> APIRouter:
    """The routes of an operator who plans for capacity."""
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
        seating = Seating(plane.ledger)
        items: list[PoolView] = []
        last: Pair = after
        async for pair, members in served_pairs(snapshot, after, clock):
            if len(items) == page.limit:
                return answer(ListPage(items, encode_cursor(last)))
            items.append(await _pool_view(pair, members, snapshot, seating, clock))
            last = pair
        return answer(ListPage(items))

    @router.get(
        "/{pair}",
        summary="The nodes of one language pair's pools, such as `en:es`",
        response_class=Response,
        responses={200: {"model": shown_as("PoolNodes", PoolNodesView)}},
    )
    async def nodes_of(pair: str) -> Response:
        source, _, target = pair.lower().partition(":")
        snapshot = plane.snapshots.current
        found: list[NodeId] = []
        async for view in yielding(list(snapshot.cells.values()), clock):
            mask = 0
            for members in pair_members(snapshot, view, (source, target)).values():
                mask |= members
            found += view.node_ids(mask)
        return answer(PoolNodesView(pair, tuple(found)))

    return router


async def served_pairs(
    snapshot: RuntimeSnapshot, after: Pair, clock: Clock
) -> AsyncIterator[tuple[Pair, Members]]:
    """The pairs with nodes in any of their pools, in order, from the first one after a pair."""
    cells_of: dict[str, list[CellView]] = {}
    async for view in yielding(snapshot.cells.values(), clock):
        for tag in {tag for _, tag in view.spoken}:
            cells_of.setdefault(tag, []).append(view)
    tags = sorted(cells_of)
    pairs = ((source, target) for source in tags for target in tags if (source, target) > after)
    async for pair in yielding(pairs, clock):
        found = {
            view.number: masks
            for view in cells_of[pair[0]]
            if (masks := pair_members(snapshot, view, pair))
        }
        if found:
            yield pair, found


def pair_members(snapshot: RuntimeSnapshot, view: CellView, pair: Pair) -> dict[PoolKind, int]:
    """The bits of a pair's nodes in one cell, for each kind of job that any of them serves."""
    found: dict[PoolKind, int] = {}
    for kind in PoolKind:
        needed = pool_languages(snapshot.rule, kind, pair)
        if needed is not None and (mask := view.knowing(needed)):
            found[kind] = mask
    return found


async def _pool_view(
    pair: Pair, members: Members, snapshot: RuntimeSnapshot, seating: Seating, clock: Clock
) -> PoolView:
    ready = slots = free = 0
    kinds = dict.fromkeys(PoolKind, 0)
    shards: list[ShardView] = []
    async for number in yielding(sorted(members), clock):
        view = snapshot.cells[number]
        of_any_kind = 0
        for kind, mask in members[number].items():
            kinds[kind] += mask.bit_count()
            of_any_kind |= mask
        shards.append(ShardView(number, of_any_kind.bit_count()))
        seats = await seating.of(number)
        for node_id in view.node_ids(of_any_kind & view.ready):
            ready += 1
            if (seat := seats.get(node_id)) is not None:
                slots += seat.slots
                free += max(0, seat.slots - seat.held)
    first = snapshot.cells[shards[0].cell]
    return PoolView(
        pair=spelt_pair(first, pair),
        kinds={kind: count for kind, count in kinds.items() if count},
        shards=tuple(shards),
        nodes=sum(shard.nodes for shard in shards),
        ready=ready,
        slots=PoolSlots(total=slots, free=free),
    )


def spelt_pair(view: CellView, pair: Pair) -> str:
    """The pair as nodes of the cell write it."""
    return ":".join(_spelling(view, tag) for tag in pair)


def _spelling(view: CellView, tag: str) -> str:
    """How a node of the cell writes the language."""
    known: list[Spoken] = [spoken for spoken in view.spoken if spoken[1] == tag]
    return next((found for spoken in known if (found := view.spelling(spoken))), tag)
