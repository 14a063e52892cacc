"""The answer cache over HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, shown_as
from dragoman.auth import Permission, Principal

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]


class ClearedView(msgspec.Struct, frozen=True):
    """What was removed from the answer cache."""

    answers: int


def cache_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of the answer cache."""
    router = APIRouter(prefix=prefix, tags=["experiments"], route_class=route_class)

    @router.delete(
        "/lab/cache",
        summary="Forget every cached answer of the tenant",
        response_class=Response,
        responses={200: {"model": shown_as("Cleared", ClearedView)}},
    )
    async def clear(caller: Caller, desk: Desk) -> Response:
        return answer(ClearedView(await desk.lab.clear_answers(caller.tenant)))

    return router
