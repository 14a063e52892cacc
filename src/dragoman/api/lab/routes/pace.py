"""The pace of a target over HTTP: how many calls at once it takes from all workers together."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from dragoman.api.lab.desk import Desk, LabDesk
from dragoman.api.lab.principals import asked_by
from dragoman.api.live.documents import answer, shown_as
from dragoman.auth import Permission, Principal
from dragoman.lab.model import ExperimentId

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]

MOST_CALLS = 1_000_000


class PaceOrder(BaseModel):
    """A new limit."""

    model_config = ConfigDict(extra="forbid")

    calls_at_once: Annotated[int, Field(ge=1, le=MOST_CALLS, strict=True)] | None = Field(
        description="Calls of the target at once, over all workers and runs; null: no limit."
    )


class LearnedView(msgspec.Struct, frozen=True):
    """What workers learned of a target that refuses most calls."""

    pause_seconds: float
    """The pause that it asks for."""
    calls_between_pauses: int
    """Calls of one worker that go well between two pauses."""


class PaceView(msgspec.Struct, frozen=True):
    """The pace of a target, shared by all experiments of the tenant that call it."""

    target_id: str
    target: str
    calls_at_once: int | None
    """Over all workers and runs; null: no limit but the concurrency of each run."""
    granted: int
    """Of these, how many workers hold now."""
    learned: LearnedView | None


_SHOWN = {"model": shown_as("Pace", PaceView)}


def pace_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of a target's pace."""
    router = APIRouter(
        prefix=f"{prefix}/experiments/{{experiment_id}}/pace",
        tags=["experiments"],
        route_class=route_class,
    )

    @router.get(
        "",
        summary="The pace of the experiment's target",
        response_class=Response,
        responses={200: _SHOWN},
    )
    async def show(experiment_id: str, caller: Caller, desk: Desk) -> Response:
        return answer(await _view(desk, caller, experiment_id))

    @router.put(
        "",
        summary="Limit the calls of the target at once, over all workers, also while they run",
        response_class=Response,
        responses={200: _SHOWN},
    )
    async def change(experiment_id: str, order: PaceOrder, caller: Caller, desk: Desk) -> Response:
        await desk.lab.set_pace(caller.tenant, ExperimentId(experiment_id), order.calls_at_once)
        return answer(await _view(desk, caller, experiment_id))

    return router


async def _view(desk: LabDesk, caller: Principal, experiment_id: str) -> PaceView:
    pace, granted = await desk.lab.pace(caller.tenant, ExperimentId(experiment_id))
    learned = pace.learned
    return PaceView(
        target_id=pace.target,
        target=pace.title,
        calls_at_once=pace.most,
        granted=granted,
        learned=None if learned is None else LearnedView(learned.asked_seconds, learned.per_round),
    )
