"""The lab's processes over HTTP: who works on what, since when, how fast."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response
from fastapi.routing import APIRoute

from dragoman.api.lab.desk import Desk
from dragoman.api.lab.principals import asked_by
from dragoman.api.lab.views import rfc3339
from dragoman.api.live.documents import answer, shown_as
from dragoman.auth import Permission, Principal, may_see
from dragoman.lab.presence import is_alive
from dragoman.lab.repository import SeenWorker

Caller = Annotated[Principal, Depends(asked_by(Permission.EXPERIMENTS))]


class RunAtWorkView(msgspec.Struct, frozen=True):
    """What a process does for one run."""

    run_id: str
    experiment_id: str
    items: int
    """In progress now."""
    since: str
    """When the oldest of them was begun."""


class WorkerView(msgspec.Struct, frozen=True):
    """A process of the lab: a worker, or a server that schedules and may work, too."""

    worker_id: str
    host: str
    pid: int
    version: str
    state: str
    """`working`, `draining` (takes nothing more), or `silent` (did not report lately)."""
    schedules: bool
    """Whether it drives runs."""
    concurrency: int
    """Items it works on at once; 0: it only schedules."""
    items: int
    """In progress now, of all tenants."""
    items_done: int
    """Since it started."""
    items_per_second: float
    """Over the last ten seconds."""
    started_at: str
    seen_at: str
    runs: list[RunAtWorkView]
    """What it works on; runs of other tenants are shown to operators only."""


class WorkersView(msgspec.Struct, frozen=True):
    """Every process of the lab that reported within the last ten minutes."""

    workers: list[WorkerView]


def workers_router(prefix: str, route_class: type[APIRoute]) -> APIRouter:
    """Routes of the lab's processes."""
    router = APIRouter(prefix=prefix, tags=["experiments"], route_class=route_class)

    @router.get(
        "/lab/workers",
        summary="Who works on what, since when, how fast",
        response_class=Response,
        responses={200: {"model": shown_as("Workers", WorkersView)}},
    )
    async def list_workers(caller: Caller, desk: Desk) -> Response:
        found = await desk.lab.workers()
        return answer(WorkersView([_view(one, caller) for one in found]))

    return router


def _view(seen: SeenWorker, caller: Principal) -> WorkerView:
    said = seen.working
    state = "draining" if said.is_draining else "working"
    return WorkerView(
        worker_id=said.owner.partition("/")[0],
        host=said.host,
        pid=said.pid,
        version=said.version,
        state=state if is_alive(seen) else "silent",
        schedules=said.schedules,
        concurrency=said.capacity,
        items=sum(run.items for run in said.doing),
        items_done=said.items_done,
        items_per_second=said.items_per_second,
        started_at=rfc3339(said.started_at_ms),
        seen_at=rfc3339(seen.seen_at_ms),
        runs=[
            RunAtWorkView(run.run_id, run.experiment_id, run.items, rfc3339(run.since_ms))
            for run in said.doing
            if may_see(caller, run.tenant)
        ],
    )
