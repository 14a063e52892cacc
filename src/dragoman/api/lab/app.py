"""The lab's own application, which answers in the lab's process or inside a program."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, WebSocketRoute

from dragoman.api.app import ANSWERS
from dragoman.api.hosts import HostCheck, served_hosts
from dragoman.api.lab.desk import LabDesk
from dragoman.api.lab.exposition import METRICS_PATH, only_of_the_lab
from dragoman.api.lab.live_sampling import LIVE_SAMPLE_PATH, FoundSample, SampledTenant
from dragoman.api.lab.pushing import push_experiment, push_list
from dragoman.api.lab.routes.annotations import annotations_router
from dragoman.api.lab.routes.cache import cache_router
from dragoman.api.lab.routes.comparison import comparison_router
from dragoman.api.lab.routes.datasets import datasets_router
from dragoman.api.lab.routes.experiments import experiments_router
from dragoman.api.lab.routes.kinds import kinds_router
from dragoman.api.lab.routes.mirror import mirror_router
from dragoman.api.lab.routes.pace import pace_router
from dragoman.api.lab.routes.results import results_router
from dragoman.api.lab.routes.workers import workers_router
from dragoman.api.live.documents import answer
from dragoman.api.middleware import Shield
from dragoman.api.permissions import require
from dragoman.auth import Authenticator, Permission
from dragoman.ids import TenantId
from dragoman.observability import EXPOSITION_CONTENT_TYPE, Metrics
from dragoman.settings import Settings

PREFIX = "/api/v1"
DATASETS_PATH = f"{PREFIX}/datasets"
LIST_PUSH_PATH = "/ws/experiments"
PUSH_PATH = "/ws/experiments/{experiment_id}"


def lab_routers(route_classes: Mapping[Permission, type[APIRoute]]) -> list[APIRouter]:
    """Every route of the lab, answered by the class that goes with the permission it needs."""
    of_experiments = route_classes[Permission.EXPERIMENTS]
    return [
        datasets_router(PREFIX, route_classes[Permission.DATASETS]),
        # Before those of one experiment, whose ids could be anything.
        experiments_router(PREFIX, of_experiments),
        results_router(PREFIX, of_experiments),
        annotations_router(PREFIX, of_experiments),
        comparison_router(PREFIX, of_experiments),
        kinds_router(PREFIX, of_experiments),
        mirror_router(PREFIX, of_experiments),
        cache_router(PREFIX, of_experiments),
        workers_router(PREFIX, of_experiments),
        pace_router(PREFIX, of_experiments),
    ]


@cache
def _own_routes() -> list[BaseRoute]:
    """The routes where they are answered: made once, for they find the lab by the request."""
    own = {Permission.DATASETS: APIRoute, Permission.EXPERIMENTS: APIRoute}
    return [route for router in lab_routers(own) for route in router.routes]


def create_lab_app(desk: LabDesk, metrics: Metrics) -> FastAPI:
    """The application over a lab. It believes what the principal header says."""
    app = FastAPI(redirect_slashes=False, openapi_url=None, exception_handlers=dict(ANSWERS))
    app.state.desk = desk
    app.router.routes.extend(_own_routes())

    @app.get(METRICS_PATH)
    async def exposition() -> Response:
        metrics.lab_event_loop_tasks.set(len(asyncio.all_tasks()))
        return Response(metrics.exposition())

    @app.post(LIVE_SAMPLE_PATH)
    async def take_sample(request: Request) -> Response:
        sampled = msgspec.json.decode(await request.body(), type=SampledTenant)
        await desk.live_sample.take(sampled.tenant, sampled.items)
        return Response(status_code=204)

    @app.get(LIVE_SAMPLE_PATH + "/{tenant}/{job_id}")
    async def find_sample(tenant: str, job_id: str) -> Response:
        found = await desk.live_sample.find(TenantId(tenant), job_id)
        if isinstance(found, str):
            return answer(FoundSample(reason=found))
        return answer(FoundSample(found))

    app.router.routes.append(WebSocketRoute(LIST_PUSH_PATH, push_list))
    app.router.routes.append(WebSocketRoute(PUSH_PATH, push_experiment))
    app.add_middleware(Shield)
    return app


def create_worker_app(
    metrics: Metrics, authenticator: Authenticator, settings: Settings
) -> FastAPI:
    """What a worker answers: that it is alive, and its metrics, for those who may see them."""
    app = FastAPI(redirect_slashes=False, openapi_url=None, exception_handlers=dict(ANSWERS))
    app.state.authenticator = authenticator

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(METRICS_PATH, dependencies=[Depends(require(Permission.METRICS))])
    async def exposition() -> Response:
        metrics.lab_event_loop_tasks.set(len(asyncio.all_tasks()))
        return Response(only_of_the_lab(metrics.exposition()), media_type=EXPOSITION_CONTENT_TYPE)

    app.add_middleware(HostCheck, serves=served_hosts(settings))
    app.add_middleware(Shield)
    return app
