"""Targets and evaluators over HTTP: the kinds, and trying one evaluator."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.orders import TryOrder, evaluator_spec, read_order
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.auth import Permission, Principal
from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import (
    EVALUATORS,
    CompositeEvaluator,
    Score,
    check_evaluator,
    open_evaluator,
    resolved_evaluators,
)
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import TargetSpec
from dragoman.lab.targets import MAIN_COLUMN, TARGETS, Output
from dragoman.live.protocol import ListPage

TRY_SECONDS = 30
"""How long an evaluator that is tried out may take; its process is then ended."""

NO_TARGET = TargetSpec("none")

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]


class KindView(msgspec.Struct, frozen=True):
    """A kind of target or evaluator, with what may be set."""

    kind: str
    schema: dict[str, Any]
    """The JSON-schema of its settings."""
    package: str | None = None
    """The package that adds it, with its version; null of a kind that is built in."""
    problem: str | None = None
    """Why the kind of an installed package cannot be used."""


class EvaluatorView(KindView, frozen=True):
    """A kind of evaluator, with what may be set."""

    has_corpus: bool = False
    """Whether there is a score of the whole corpus, besides the mean."""
    higher_is_better: bool | None = None
    """Whether a higher score is the better one; null where neither end is good."""


_KINDS: dict[int | str, dict[str, Any]] = {200: {"model": shown_as("KindPage", ListPage[KindView])}}
_EVALUATORS: dict[int | str, dict[str, Any]] = {
    200: {"model": shown_as("EvaluatorKindPage", ListPage[EvaluatorView])}
}
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
        return answer(ListPage([_target_view(name) for name in sorted(TARGETS)], None))

    @router.get(
        "/evaluators",
        summary="The kinds of evaluator, with their settings",
        response_class=Response,
        responses=_EVALUATORS,
    )
    async def evaluators(caller: Caller) -> Response:
        return answer(ListPage([_evaluator_view(name) for name in sorted(EVALUATORS)], None))

    @router.post(
        "/evaluators/try",
        summary="Run an evaluator once, on given values",
        response_class=Response,
        responses={200: {"model": shown_as("Score", Score)}},
        openapi_extra=_TRY_BODY,
    )
    async def try_out(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), TryOrder)
        [spec] = resolved_evaluators([evaluator_spec(order.evaluator)], NO_TARGET)
        check_evaluator(spec, set(order.turn), desk.context)
        evaluator = open_evaluator(spec, desk.context, desk.processes)
        try:
            if isinstance(evaluator, CompositeEvaluator):
                given = {name: Score(score) for name, score in order.scores.items()}
                return answer(evaluator.combine(given))
            async with asyncio.timeout(TRY_SECONDS):
                return answer(await evaluator.score(order.turn, _output(order)))
        except TimeoutError:
            raise EvaluatorFailure(
                f"The evaluator took longer than {TRY_SECONDS} s, and was ended.", retryable=False
            ) from None
        finally:
            await evaluator.close()

    return router


def _output(order: TryOrder) -> Output:
    """An object is an output's columns, as rows show them; anything else is the main one."""
    given = order.output
    columns = given if isinstance(given, dict) and given else {MAIN_COLUMN: given}
    main = MAIN_COLUMN if MAIN_COLUMN in columns else next(iter(columns))
    return Output(columns, main, latency_ms=order.latency_ms)


def _target_view(name: str) -> KindView:
    try:
        return KindView(name, TARGETS.find(name).schema(), TARGETS.package_of(name))
    except InvalidMessage as error:
        return KindView(name, {}, TARGETS.package_of(name), error.message)


def _evaluator_view(name: str) -> EvaluatorView:
    package = EVALUATORS.package_of(name)
    try:
        kind = EVALUATORS.find(name)
        return EvaluatorView(
            name, kind.schema(), package, None, kind.has_corpus, kind.higher_is_better
        )
    except InvalidMessage as error:
        return EvaluatorView(name, {}, package, error.message)
