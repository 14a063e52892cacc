"""What dispatch tells about itself: metrics and log events, in one place."""

from __future__ import annotations

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import Progress
from dragoman.live.ledger import Granted, JobRecord
from dragoman.live.protocol import Outcome
from dragoman.observability import Metrics, get_logger

log = get_logger("dragoman.dispatch")

_SELECTORS = {
    errors.UnsupportedFeature: "features",
    errors.NoCapacity: "reserve",
}


class Sightings:
    """Counts and logs what happens to jobs."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def dispatched(self, job: LiveJob, granted: Granted, now: float) -> None:
        self._metrics.dispatch_latency.observe(now - job.started)
        job.progressed(Progress.DISPATCHED)

    def refused(self, job: LiveJob, error: errors.DragomanError) -> None:
        reasons = error.details.get("reasons", {})
        selector = _SELECTORS.get(type(error), "models")
        for reason, count in reasons.items():
            self._metrics.no_available_node.labels(selector, reason).inc()
            self._metrics.dispatch_exclude.labels(reason).inc(count)
        log.warning_limited(
            "no_available_node",
            key=error.code,
            every_seconds=1,
            job_id=job.job_id,
            pair=":".join(job.requirement.pair),
            code=error.code,
            reasons=reasons,
        )

    def failed_over(self, job: LiveJob, node_id: NodeId, code: str) -> None:
        self._metrics.failover.labels(code).inc()
        job.progressed(Progress.FAILOVER)
        log.info("failover", **{"job_id": job.job_id, "from": node_id, "code": code})

    def ended(self, job: LiveJob, record: JobRecord) -> None:
        outcome = record.outcome or Outcome.FAILED
        self._metrics.jobs.labels(job.spec.job_class.value, outcome.value).inc()
        self._metrics.job_duration.observe(self._clock.monotonic() - job.started)

    def dropped(self, reason: str) -> None:
        """A result nobody waits for."""
        self._metrics.results_dropped.labels(reason).inc()
