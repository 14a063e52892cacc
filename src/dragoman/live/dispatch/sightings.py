"""What dispatch tells about itself: metrics and log events, in one place."""

from __future__ import annotations

from collections.abc import Callable

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.dispatch.choice import Decision
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import Progress
from dragoman.live.dispatch.spans import end_span
from dragoman.live.dispatch.tally import Tally
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

    def __init__(
        self, metrics: Metrics, tally: Tally, clock: Clock, on_ended: Callable[[Outcome], None]
    ) -> None:
        self._metrics = metrics
        self._tally = tally
        self._clock = clock
        self._on_ended = on_ended

    def chose(self, tries: tuple[Decision, ...]) -> None:
        """A node was chosen: those left out of the cells looked at are counted."""
        for decision in tries:
            if not decision.left_nobody_out:
                self._tally.left_out(decision)

    def found_nobody(self, decision: Decision, error: errors.DragomanError) -> None:
        """No node was fit and free now. The job may yet wait: its refusal is what counts."""
        self._tally.show_examples(decision, error.details.get("reasons", {}))

    def dispatched(self, job: LiveJob, granted: Granted, now: float) -> None:
        self._metrics.dispatch_latency.observe(now - job.started)
        job.progressed(Progress.DISPATCHED)

    def refused(self, job: LiveJob, error: errors.DragomanError) -> None:
        reasons = error.details.get("reasons", {})
        selector = _SELECTORS.get(type(error), "models")
        for reason in reasons or (error.code,):
            self._metrics.no_available_node.labels(selector, reason).inc()
        for reason, count in reasons.items():
            self._tally.count_left_out(reason, count)
        log.warning_limited(
            "no_available_node",
            key=error.code,
            every_seconds=1,
            job_id=job.job_id,
            pair=job.requirement.shown,
            code=error.code,
            reasons=reasons,
        )

    def failed_over(self, job: LiveJob, node_id: NodeId, code: str) -> None:
        self._metrics.failover.labels(code).inc()
        job.progressed(Progress.FAILOVER)
        log.info("failover", **{"job_id": job.job_id, "from": node_id, "code": code})

    def ended(self, job: LiveJob, record: JobRecord) -> None:
        outcome = record.outcome or Outcome.FAILED
        self._tally.succeeded += outcome is Outcome.SUCCESS
        self._tally.failed += outcome is Outcome.FAILED
        self._on_ended(outcome)
        self._metrics.jobs.labels(job.spec.job_class, outcome).inc()
        self._metrics.job_duration.observe(self._clock.monotonic() - job.started)
        if job.trace is not None:
            end_span(job.trace, record)

    def dropped(self, reason: str) -> None:
        """A result that no job waits for."""
        self._metrics.results_dropped.labels(reason).inc()
