"""Stats over HTTP: sessions, nodes and jobs in numbers, as the last snapshot has them."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.clock import Clock
from dragoman.live.gateway import LivePlane
from dragoman.live.stats import Stats


def stats_router(prefix: str, plane: LivePlane, clock: Clock) -> APIRouter:
    """The route for dashboards. It computes nothing: it returns a snapshot."""
    router = APIRouter(
        prefix=f"{prefix}/stats",
        tags=["stats"],
        dependencies=[Depends(require(Permission.STATS))],
    )

    @router.get(
        "",
        summary="Sessions, nodes and jobs in numbers, a few seconds old",
        response_class=Response,
        responses={200: {"model": shown_as("Stats", Stats)}},
    )
    async def stats() -> Response:
        began = clock.monotonic()
        try:
            return answer(plane.stats.read())
        finally:
            plane.stats.answered(clock.monotonic() - began)

    return router
