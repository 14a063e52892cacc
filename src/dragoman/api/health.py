"""Liveness, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from dragoman.api.permissions import require
from dragoman.api.problems import Problem
from dragoman.api.services import Services
from dragoman.auth import Permission
from dragoman.observability import EXPOSITION_CONTENT_TYPE


class Health(BaseModel):
    """The process answers."""

    status: str = Field(examples=["ok"])


class Ready(BaseModel):
    """Whether the server is ready for work."""

    status: str = Field(examples=["ready", "starting", "draining", "unavailable"])
    reasons: list[str] = Field(description="What the server waits for; empty when it is ready.")
    lacking: list[str] = Field(
        default=[],
        description="Dependencies that are down but that live work does not need, such as the lab.",
    )
    warnings: list[str] = Field(
        default=[],
        description="What limits live work although every dependency answers, such as a Redis "
        "whose memory is full. The server stays ready.",
    )


_EXPOSITION = {"content": {EXPOSITION_CONTENT_TYPE: {"schema": {"type": "string"}}}}
# Named, not spelt out: what a schema refers to is found among the document's own.
_PROBLEM = {
    "content": {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}
    }
}


def health_router(services: Services) -> APIRouter:
    """The routes that load balancers and Prometheus ask."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the process is alive")
    async def healthz() -> Health:
        return Health(status="ok")

    @router.get(
        "/readyz",
        summary="Whether the server is ready for work",
        responses={503: {"model": Ready, "description": "Starting, draining or lacking something"}},
    )
    async def readyz(response: Response) -> Ready:
        verdict = await services.readiness.verdict()
        if not verdict.ready:
            response.status_code = 503
        return Ready(
            status=verdict.status,
            reasons=list(verdict.reasons),
            lacking=list(verdict.lacking),
            warnings=list(verdict.warnings),
        )

    @router.get(
        "/metrics",
        summary="Metrics in the Prometheus text format",
        dependencies=[Depends(require(Permission.METRICS))],
        response_class=Response,
        responses={200: _EXPOSITION, 401: _PROBLEM, 403: _PROBLEM},
    )
    async def metrics() -> Response:
        # Counted when asked for: the count looks at every task, and keeping it would cost each.
        services.metrics.event_loop_tasks.set(len(asyncio.all_tasks()))
        verdict = await services.readiness.verdict()
        services.metrics.show_readiness(verdict.ready, verdict.dependencies)
        exposition = services.metrics.exposition()
        for add_more in services.other_metrics:
            exposition = await add_more(exposition)
        return Response(exposition, media_type=EXPOSITION_CONTENT_TYPE)

    return router
