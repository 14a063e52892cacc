"""Targets and evaluators over HTTP: the kinds, and trying one evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.orders import TryOrder, evaluator_spec, read_order
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.auth import Permission, Principal
from dragoman.lab.evaluators import EVALUATORS, Score, check_evaluator, open_evaluator
from dragoman.lab.model import JsonValue
from dragoman.lab.targets import MAIN_COLUMN, TARGETS, Output
from dragoman.live.protocol import ListPage

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]


class KindView(msgspec.Struct, frozen=True):
    """A kind of target or evaluator, with what may be set."""

    kind: str
    schema: dict[str, Any]
    """The JSON-schema of its settings."""


_KINDS: dict[int | str, dict[str, Any]] = {200: {"model": shown_as("KindPage", ListPage[KindView])}}
_TRY_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": schema_of(TryOrder)}},
    }
}


def kinds_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of the kinds of target and evaluator."""
    router = APIRouter(prefix=prefix, tags=["experiments"], route_class=route_class)

    @router.get(
        "/targets",
        summary="The kinds of target, with their settings",
        response_class=Response,
        responses=_KINDS,
    )
    async def targets(caller: Caller) -> Response:
        return answer(_listed(TARGETS))

    @router.get(
        "/evaluators",
        summary="The kinds of evaluator, with their settings",
        response_class=Response,
        responses=_KINDS,
    )
    async def evaluators(caller: Caller) -> Response:
        return answer(_listed(EVALUATORS))

    @router.post(
        "/evaluators/try",
        summary="Run an evaluator once, on given values",
        response_class=Response,
        responses={200: {"model": shown_as("Score", Score)}},
        openapi_extra=_TRY_BODY,
    )
    async def try_out(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), TryOrder)
        spec = evaluator_spec(order.evaluator)
        check_evaluator(spec, set(order.turn), desk.context)
        evaluator = open_evaluator(spec, desk.context, desk.processes)
        try:
            return answer(await evaluator.score(order.turn, _output(order.output)))
        finally:
            await evaluator.close()

    return router


def _output(given: JsonValue) -> Output:
    """An object is an output's columns, as rows show them; anything else is the main one."""
    columns = given if isinstance(given, dict) and given else {MAIN_COLUMN: given}
    return Output(columns, MAIN_COLUMN if MAIN_COLUMN in columns else next(iter(columns)))


def _listed(kinds: Mapping[str, Any]) -> ListPage[KindView]:
    return ListPage([KindView(name, kinds[name].schema()) for name in sorted(kinds)], None)
