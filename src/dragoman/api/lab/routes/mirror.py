"""The columnar mirror over HTTP: how it stands, and making it anew."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk, LabDesk
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, shown_as
from dragoman.auth import Permission, Principal
from dragoman.errors import NotFound
from dragoman.lab.mirror import Following

# Of operators: making the mirror anew is work for the whole lab.
Caller = Annotated[Principal, Depends(asked_by(Permission.METRICS))]


class MirrorView(msgspec.Struct, frozen=True):
    """The mirror as it stands."""

    ready: bool
    """Whether it answers; while it does not, the database does."""
    lag_rows: int
    """Items whose last change it does not have yet; above 10,000 counted only while it is made."""


_SHOWN = {"model": shown_as("Mirror", MirrorView)}


def mirror_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of the mirror."""
    router = APIRouter(prefix=f"{prefix}/lab/mirror", tags=["experiments"], route_class=route_class)

    @router.get(
        "",
        summary="How the columnar copy of results stands",
        response_class=Response,
        responses={200: _SHOWN},
    )
    async def show(caller: Caller, desk: Desk) -> Response:
        return answer(await _view(desk))

    @router.post(
        "/rebuild",
        summary="Copy all results to the columnar mirror anew",
        status_code=202,
        response_class=Response,
        responses={202: _SHOWN},
    )
    async def rebuild(caller: Caller, desk: Desk) -> Response:
        _mirror_of(desk).rebuild()
        return answer(await _view(desk), 202)

    return router


async def _view(desk: LabDesk) -> MirrorView:
    mirror = _mirror_of(desk)
    return MirrorView(mirror.ready, await mirror.lag_rows())


def _mirror_of(desk: LabDesk) -> Following:
    if desk.mirror is None:
        raise NotFound(
            "This lab has no columnar mirror: lab.analytics_url is empty, or the extra `lab` is "
            "not installed. Results are read from the database."
        )
    return desk.mirror
