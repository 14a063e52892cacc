"""Experiments over HTTP: made, started, killed, changed, looked at."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk, LabDesk
from dragoman.api.lab.orders import (
    ChangeOrder,
    CloneOrder,
    EstimateOrder,
    ExperimentOrder,
    InFlight,
    InvokeOrder,
    KillOrder,
    RunOrder,
    ScoreOrder,
    SubmitOrder,
    read_order,
)
from dragoman.api.lab.principals import asked_by
from dragoman.api.lab.views import (
    CreatedView,
    ExperimentView,
    InvokedView,
    KilledView,
    RunView,
    StartedView,
    SubmittedView,
    view_experiment,
    view_run,
)
from dragoman.api.live.documents import answer, schema_of, shown_as
from dragoman.api.paging import Paging, encode_cursor
from dragoman.auth import Permission, Principal
from dragoman.errors import InvalidMessage
from dragoman.lab.audio import audio_columns
from dragoman.lab.estimates import Rehearsal
from dragoman.lab.experiments import StartAsk
from dragoman.live.protocol import ListPage

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]

_EXPERIMENT = shown_as("Experiment", ExperimentView)
_CREATED = shown_as("CreatedExperiment", CreatedView)
_STARTED = shown_as("StartedRun", StartedView)


def experiments_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of experiments."""
    router = APIRouter(
        prefix=f"{prefix}/experiments", tags=["experiments"], route_class=route_class
    )

    @router.post(
        "",
        summary="Make an experiment without starting it",
        status_code=201,
        response_class=Response,
        responses={201: {"model": _CREATED}},
        openapi_extra=_body(ExperimentOrder),
    )
    async def create(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), ExperimentOrder)
        made = await desk.lab.experiments.create(caller.tenant, order.spec())
        return answer(CreatedView(made.experiment_id), 201)

    @router.post(
        "/submit",
        summary="Make an experiment and start it",
        status_code=201,
        response_class=Response,
        responses={201: {"model": shown_as("SubmittedExperiment", SubmittedView)}},
        openapi_extra=_body(SubmitOrder),
    )
    async def submit(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), SubmitOrder)
        experiments = desk.lab.experiments
        made, started = await experiments.submit(caller.tenant, order.spec(), order.ask())
        return answer(SubmittedView(made.experiment_id, started.run_id), 201)

    @router.post(
        "/estimate",
        summary="Try three items, store nothing, and estimate what a run would take",
        response_class=Response,
        responses={200: {"model": shown_as("Rehearsal", Rehearsal)}},
        openapi_extra=_body(EstimateOrder),
    )
    async def estimate(request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), EstimateOrder)
        sample = None if order.sample is None else order.sample.sample()
        if sample is not None and not desk.is_local and audio_columns(sample.schema):
            # A row names audio by its checksum, and the file may be another tenant's.
            raise InvalidMessage(
                "A server estimates from no audio that is not in its lab; import the dataset "
                "first, and name its version.",
                details={"field": "sample"},
            )
        return answer(await desk.lab.estimates.estimate(caller.tenant, order.spec(), sample))

    @router.get(
        "",
        summary="The tenant's experiments, the latest first",
        response_class=Response,
        responses={200: {"model": shown_as("ExperimentPage", ListPage[ExperimentView])}},
    )
    async def every(
        caller: Caller,
        desk: Desk,
        page: Paging,
        name: Annotated[str | None, Query(description="Only the experiment of this name.")] = None,
    ) -> Response:
        if name is not None:
            found = await desk.lab.experiments.find(caller.tenant, name)
            shown = [] if found is None else [found.experiment_id]
            views = [
                view_experiment(await desk.lab.experiments.show(caller.tenant, one))
                for one in shown
            ]
            return answer(ListPage(views, None))
        before = page.position(tuple[int, str])
        listed = await desk.lab.experiments.overviews(
            caller.tenant, before=before, most=page.limit + 1
        )
        more = None
        if len(listed) > page.limit:
            last = listed[page.limit - 1].experiment
            more = encode_cursor((last.created_at_ms, last.experiment_id))
        return answer(ListPage([view_experiment(one) for one in listed[: page.limit]], more))

    @router.get(
        "/{experiment_id}",
        summary="An experiment with its progress",
        response_class=Response,
        responses={200: {"model": _EXPERIMENT}},
    )
    async def one(experiment_id: str, caller: Caller, desk: Desk) -> Response:
        return answer(
            view_experiment(await desk.lab.experiments.show(caller.tenant, experiment_id))
        )

    @router.patch(
        "/{experiment_id}",
        summary="Change name, description, budget, concurrency, retries or weight, also while it "
        "runs",
        response_class=Response,
        responses={200: {"model": _EXPERIMENT}},
        openapi_extra=_body(ChangeOrder),
    )
    async def change(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), ChangeOrder)
        await desk.lab.experiments.change(caller.tenant, experiment_id, **order.changes())
        return answer(
            view_experiment(await desk.lab.experiments.show(caller.tenant, experiment_id))
        )

    @router.delete(
        "/{experiment_id}",
        summary="Delete an experiment and all its results; refused while it runs",
        status_code=204,
        response_class=Response,
    )
    async def delete(experiment_id: str, caller: Caller, desk: Desk) -> Response:
        await desk.lab.experiments.delete(caller.tenant, experiment_id)
        return Response(status_code=204)

    @router.get(
        "/{experiment_id}/runs",
        summary="Every run of an experiment, the latest first",
        response_class=Response,
        responses={200: {"model": shown_as("RunPage", ListPage[RunView])}},
    )
    async def runs(experiment_id: str, caller: Caller, desk: Desk) -> Response:
        found = await desk.lab.experiments.runs(caller.tenant, experiment_id)
        return answer(ListPage([view_run(run) for run in found], None))

    @router.post(
        "/{experiment_id}/runs",
        summary="Start a run, or add items to the run under way",
        status_code=201,
        response_class=Response,
        responses={
            200: {"model": _STARTED, "description": "The items joined the run that is under way"},
            201: {"model": _STARTED, "description": "A new run"},
        },
        openapi_extra=_body(RunOrder),
    )
    async def start(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), RunOrder)
        ask = StartAsk(order.mode, tuple(order.item_ids), order.trial_items)
        started = await desk.lab.experiments.start(caller.tenant, experiment_id, ask)
        view = StartedView(started.run_id, started.joined)
        return answer(view, 200 if started.joined else 201)

    @router.post(
        "/{experiment_id}/score",
        summary="Score the stored outputs again, without calling the target",
        status_code=201,
        response_class=Response,
        responses={201: {"model": _STARTED}},
        openapi_extra=_body(ScoreOrder),
    )
    async def score(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), ScoreOrder)
        started = await desk.lab.experiments.score(caller.tenant, experiment_id, order.specs())
        return answer(StartedView(started.run_id, started.joined), 201)

    @router.post(
        "/{experiment_id}/kill",
        summary="End the run of an experiment",
        status_code=202,
        response_class=Response,
        responses={202: {"model": shown_as("KilledRun", KilledView)}},
        openapi_extra=_body(KillOrder, required=False),
    )
    async def kill(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), KillOrder)
        killed = await desk.lab.experiments.kill(
            caller.tenant, experiment_id, let_finish=order.in_flight is InFlight.FINISH
        )
        return answer(KilledView(killed), 202)

    @router.post(
        "/{experiment_id}/invoke",
        summary="Add items to an append experiment that runs, or that starts by itself again",
        status_code=201,
        response_class=Response,
        responses={201: {"model": shown_as("InvokedItems", InvokedView)}},
        openapi_extra=_body(InvokeOrder),
    )
    async def invoke(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), InvokeOrder)
        items = [item.turns for item in order.items]
        taken = await desk.lab.experiments.invoke(caller.tenant, experiment_id, items)
        return answer(InvokedView(list(taken)), 201)

    @router.post(
        "/{experiment_id}/finish",
        summary="Let an append experiment end when its items are done; it starts no more",
        status_code=202,
        response_class=Response,
        responses={202: {"model": shown_as("FinishedRun", KilledView)}},
    )
    async def finish(experiment_id: str, caller: Caller, desk: Desk) -> Response:
        finished = await desk.lab.experiments.finish(caller.tenant, experiment_id)
        return answer(KilledView(finished), 202)

    @router.post(
        "/{experiment_id}/clone",
        summary="Copy an experiment",
        status_code=201,
        response_class=Response,
        responses={201: {"model": _CREATED}},
        openapi_extra=_body(CloneOrder, required=False),
    )
    async def clone(experiment_id: str, request: Request, caller: Caller, desk: Desk) -> Response:
        order = read_order(await request.body(), CloneOrder)
        name = order.name or await _free_name(desk, caller, experiment_id)
        made = await desk.lab.experiments.clone(caller.tenant, experiment_id, name)
        return answer(CreatedView(made.experiment_id), 201)

    return router


async def _free_name(desk: LabDesk, caller: Principal, experiment_id: str) -> str:
    """The experiment's own name with the first number that makes it a new one."""
    experiments = desk.lab.experiments
    name = (await experiments.show(caller.tenant, experiment_id)).experiment.spec.name
    number = 2
    while await experiments.find(caller.tenant, f"{name} #{number}") is not None:
        number += 1
    return f"{name} #{number}"


def _body(order: type, *, required: bool = True) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_of(order)}}
    return {"requestBody": {"required": required, "content": content}}
