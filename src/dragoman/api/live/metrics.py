"""The most important metrics as JSON, for use without Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from fastapi import APIRouter, Depends, Response
from prometheus_client import Counter

from dragoman.api.live.documents import answer, shown_as
from dragoman.api.permissions import require
from dragoman.auth import Permission
from dragoman.ids import NodeId
from dragoman.live.dispatch import Tally
from dragoman.live.fleet import CatalogState, FeedbackView
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import utc_time
from dragoman.live.stats import StatsCache
from dragoman.observability import Labelled, Metrics


class StatsMetrics(msgspec.Struct, frozen=True):
    """How requests for stats were answered; times are those of the last thousand."""

    requests_total: int
    stale_total: int
    stale_ratio: float
    p95_ms: float
    p99_ms: float
    snapshot_generated_at: str | None


class SchedulingMetrics(msgspec.Struct, frozen=True):
    """How often jobs are asked for, over the last ten seconds."""

    qps: float


class CatalogMetrics(msgspec.Struct, frozen=True):
    """How the service catalog is kept up to date."""

    fail_count: int
    last_error: str | None
    last_success_at: str | None


class LeftOutMetrics(msgspec.Struct, frozen=True):
    """How often a node was left out for a reason, and some that were lately."""

    count: int
    examples: tuple[NodeId, ...]


class ExcludeMetrics(msgspec.Struct, frozen=True):
    """Why nodes were left out of decisions."""

    by_reason: Mapping[str, LeftOutMetrics]


class LiveMetrics(msgspec.Struct, frozen=True):
    """The answer of ``GET /api/v1/metrics``."""

    stats: StatsMetrics
    scheduling: SchedulingMetrics
    service_catalog: CatalogMetrics
    model_na: FeedbackView
    dispatch_exclude: ExcludeMetrics
    web_task: Mapping[str, int]
    """Utterances of audio, by what cut them."""
    slow_lock: Mapping[str, int]
    slow_path: Mapping[str, int]


def metrics_router(prefix: str, plane: LivePlane, metrics: Metrics) -> APIRouter:
    """The route for a quick look without Prometheus."""
    router = APIRouter(
        prefix=f"{prefix}/metrics",
        tags=["metrics"],
        dependencies=[Depends(require(Permission.METRICS))],
    )

    @router.get(
        "",
        summary="The most important metrics as JSON; /metrics has all of them",
        response_class=Response,
        responses={200: {"model": shown_as("Metrics", LiveMetrics)}},
    )
    async def live_metrics() -> Response:
        return answer(
            LiveMetrics(
                stats=stats_metrics(plane.stats),
                scheduling=SchedulingMetrics(qps=round(plane.dispatcher.tally.asked_per_second, 3)),
                service_catalog=catalog_metrics(plane.catalog.state),
                model_na=plane.feedback.view(),
                dispatch_exclude=exclude_metrics(plane.dispatcher.tally),
                web_task=dict(_counts(metrics.web_task_finalized)),
                slow_lock=dict(_counts(metrics.slow_lock_wait)),
                slow_path=dict(_counts(metrics.slow_path)),
            )
        )

    return router


def stats_metrics(cache: StatsCache) -> StatsMetrics:
    asked, stale = cache.requests, cache.stale_requests
    return StatsMetrics(
        requests_total=asked,
        stale_total=stale,
        stale_ratio=round(stale / asked, 6) if asked else 0.0,
        p95_ms=round(cache.latency_ms(0.95), 3),
        p99_ms=round(cache.latency_ms(0.99), 3),
        snapshot_generated_at=cache.snapshot.generated_at if cache.snapshot else None,
    )


def catalog_metrics(state: CatalogState) -> CatalogMetrics:
    succeeded_at_ms = state.last_success_at_ms
    return CatalogMetrics(
        fail_count=state.fail_count,
        last_error=state.last_error,
        last_success_at=None if succeeded_at_ms is None else utc_time(succeeded_at_ms),
    )


def exclude_metrics(tally: Tally) -> ExcludeMetrics:
    return ExcludeMetrics(
        by_reason={
            reason: LeftOutMetrics(count, tally.examples.get(reason, ()))
            for reason, count in tally.times_left_out.items()
        }
    )


def _counts(counters: Labelled[Counter]) -> Iterator[tuple[str, int]]:
    return ((name, int(count)) for name, count in counters.counts().items())
