"""Nodes over HTTP: look at them, drain them, let them work again, shut them down."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from dragoman.api.audit_trail import note
from dragoman.api.live.documents import answer, shown_as
from dragoman.api.live.node_views import POOLS_ALONE, POOLS_IN_LIST, Seating, node_view
from dragoman.api.paging import Paging, encode_cursor
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.fleet import RegisteredNode, RemoteNode
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import ListPage, NodeHealth, NodeView
from dragoman.live.snapshot import RuntimeSnapshot
from dragoman.observability import yielding

_NODE = shown_as("Node", NodeView)

Place = tuple[int, int]
"""A cell and an index in it: where a node stands in the list. It does not change while it lives."""


class Order(BaseModel):
    """Why a node is drained or shut down, for the node and the log."""

    reason: str | None = Field(default=None, max_length=256)


def nodes_router(prefix: str, plane: LivePlane, clock: Clock) -> APIRouter:
    """Routes of nodes."""
    router = APIRouter(
        prefix=f"{prefix}/nodes",
        tags=["nodes"],
        dependencies=[Depends(require(Permission.NODES))],
    )

    async def shown(
        node: RegisteredNode | RemoteNode, seating: Seating, max_pools: int
    ) -> NodeView:
        seats = await seating.of(node.cell)
        rule, thresholds = plane.snapshots.current.rule, plane.registry.thresholds
        return node_view(node, seats.get(node.node_id), rule, thresholds, max_pools)

    async def view_of(node_id: str) -> NodeView:
        node = plane.registry.known(NodeId(node_id))
        return await shown(node, Seating(plane.ledger), POOLS_ALONE)

    @router.get(
        "",
        summary="Every known node, cell by cell",
        response_class=Response,
        responses={200: {"model": shown_as("NodePage", ListPage[NodeView])}},
    )
    async def known(page: Paging) -> Response:
        after = page.position(tuple[int, int]) or (-1, -1)
        places = list(islice(_places(plane.snapshots.current, after), page.limit + 1))
        # All at once: while their seats are read, some may be forgotten.
        nodes = [plane.registry.known(node_id) for _, node_id in places[: page.limit]]
        seating = Seating(plane.ledger)
        items = [await shown(node, seating, POOLS_IN_LIST) async for node in yielding(nodes, clock)]
        more = len(places) > page.limit
        return answer(ListPage(items, encode_cursor(places[page.limit - 1][0]) if more else None))

    @router.get(
        "/{node_id:path}",
        summary="A node",
        response_class=Response,
        responses={200: {"model": _NODE}},
    )
    async def one(node_id: str) -> Response:
        return answer(await view_of(node_id))

    @router.post(
        "/{node_id:path}/drain",
        summary="Give a node no more jobs, even after it reconnects",
        response_class=Response,
        responses={200: {"model": _NODE}},
    )
    async def drain(request: Request, node_id: str, body: Order | None = None) -> Response:
        note(request, reason=body.reason if body else None)
        await plane.registry.drain(NodeId(node_id), body.reason if body else None)
        return answer(await view_of(node_id))

    @router.post(
        "/{node_id:path}/shutdown",
        summary="Tell a node to finish its jobs and end its process",
        response_class=Response,
        responses={200: {"model": _NODE}},
    )
    async def shut_down(request: Request, node_id: str, body: Order | None = None) -> Response:
        note(request, reason=body.reason if body else None)
        plane.registry.shut_down(NodeId(node_id), body.reason if body else None)
        return answer(await view_of(node_id))

    @router.post(
        "/{node_id:path}/resume",
        summary="Undo a drain",
        response_class=Response,
        responses={200: {"model": _NODE}},
    )
    async def resume(node_id: str) -> Response:
        await plane.registry.resume(NodeId(node_id))
        view = await view_of(node_id)
        if view.status is NodeHealth.DRAINING:
            # Another instance has the node and was told; its change arrives in a moment.
            view = msgspec.structs.replace(view, status=NodeHealth.REGISTERING)
        return answer(view)

    return router


def _places(snapshot: RuntimeSnapshot, after: Place) -> Iterator[tuple[Place, NodeId]]:
    """Where the nodes behind a place stand, and who they are. A page costs what it shows."""
    for number in sorted(cell for cell in snapshot.cells if cell >= after[0]):
        for index, facts in sorted(snapshot.cells[number].nodes.items()):
            if (number, index) > after:
                yield (number, index), facts.node_id
