"""What dispatch tells about itself: metrics, log events and spans, in one place."""

from __future__ import annotations

from typing import Protocol

from dragoman import errors
from dragoman.ids import NodeId
from dragoman.live.dispatch.job import Job
from dragoman.live.dispatch.orders import Progress
from dragoman.live.dispatch.selection import Decision
from dragoman.live.dispatch.tally import Tally
from dragoman.live.ledger import StaleReason
from dragoman.live.protocol import JobClass, Outcome
from dragoman.observability import Metrics, Trace, Tracing, get_logger

log = get_logger("dragoman.dispatch")

_SELECTORS: dict[type[errors.DragomanError], str] = {
    errors.UnsupportedFeature: "features",
    errors.NoCapacity: "reserve",
}

_STEP_NAMES: dict[Progress, str] = {
    Progress.DISPATCHED: "dispatched",
    Progress.ACCEPTED: "acked",
    Progress.RUNNING: "running",
    Progress.FAILOVER: "failover",
}
"""What a step of a job is called in its span."""


class CatalogPort(Protocol):
    """The service catalog, as far as it counts jobs."""

    @property
    def state(self) -> CatalogState: ...
    def job_ended(self, outcome: Outcome) -> None:
        """A job ended while the catalog could not be fetched."""
        ...


class CatalogState(Protocol):
    @property
    def fail_count(self) -> int: ...


class DispatchTelemetry:
    """Counts and logs what happens to jobs."""

    def __init__(
        self,
        metrics: Metrics,
        tally: Tally,
        tracing: Tracing | None,
        catalog: CatalogPort,
    ) -> None:
        self._metrics = metrics
        self.tally = tally
        self.tracing = tracing
        self._catalog = catalog
        self.latency = metrics.dispatch_latency.observe
        self._duration = metrics.job_duration.observe
        self._live_successes = metrics.jobs.labels(JobClass.LIVE, Outcome.SUCCESS)

    # --- looking for a node ---------------------------------------------------------------------

    def chose(self, decision: Decision) -> None:
        """A node was chosen: those left out of the cells looked at are counted."""
        if not decision.left_none_out:
            self.tally.left_out(decision)

    def found_none(self, decision: Decision, error: errors.DragomanError) -> None:
        """No node was fit and free now. The job may yet wait: its refusal is what counts."""
        self.tally.show_examples(decision, error.details.get("reasons", {}))

    def refused(self, job: Job, error: errors.DragomanError) -> None:
        reasons = error.details.get("reasons", {})
        selector = _SELECTORS.get(type(error), "models")
        for reason in reasons or (error.code,):
            self._metrics.no_available_node.labels(selector, reason).inc()
        for reason, count in reasons.items():
            self.tally.count_left_out(reason, count)
        log.warning_limited(
            "no_available_node",
            key=error.code,
            every_seconds=1,
            job_id=job.job_id,
            pair=job.requirement.shown,
            code=error.code,
            reasons=reasons,
        )

    # --- on its way -----------------------------------------------------------------------------

    def failed_over(self, job: Job, node_id: NodeId, code: str) -> None:
        self._metrics.failover.labels(code).inc()
        progressed(job, Progress.FAILOVER)
        log.info("failover", **{"job_id": job.job_id, "from": node_id, "code": code})

    def dropped(self, reason: StaleReason) -> None:
        """A result that no job waits for."""
        self._metrics.results_dropped.labels(reason).inc()

    def ended(self, job: Job, now: float) -> None:
        outcome = job.outcome or Outcome.FAILED
        if outcome is Outcome.SUCCESS:
            self.tally.succeeded += 1
        elif outcome is Outcome.FAILED:
            self.tally.failed += 1
        if outcome is Outcome.SUCCESS and job.spec.job_class is JobClass.LIVE:
            # Nearly all are of this kind, and looking a counter up costs more than all the rest.
            self._live_successes.value += 1
        else:
            self._metrics.jobs.labels(job.spec.job_class, outcome).inc()
        if self._catalog.state.fail_count:
            self._catalog.job_ended(outcome)
        self._duration(now - job.started)
        if job.trace is not None:
            used = len(job.past or ()) + (job.seat is not None)
            job.trace.event("finished", outcome=outcome.value, attempts=used)
            job.trace.end(job.error.code if job.error is not None else None)

    # --- spans ----------------------------------------------------------------------------------

    def entered(self, job: Job) -> None:
        """A new job was claimed: its span begins."""
        assert self.tracing is not None, "asked only while tracing is on"
        spec = job.spec
        trace: Trace = self.tracing.begin(
            "job",
            spec.trace_id,
            parent=job.parent_span,
            began=job.started,
            attributes={
                "dragoman.job_id": job.job_id,
                "dragoman.request_id": spec.request_id,
                "dragoman.tenant": spec.tenant,
                "dragoman.class": spec.job_class.value,
                "dragoman.pair": f"{spec.src_lang}:{spec.tgt_lang}",
                "dragoman.trace_id": spec.trace_id,
            },
        )
        trace.event("received", at=job.started)
        trace.event("claimed")
        job.trace = trace


def progressed(job: Job, progress: Progress) -> None:
    """Tell watchers that the job took a step."""
    if job.trace is not None:
        job.trace.event(_STEP_NAMES[progress])
    if job.watched and job.owner is not None:
        job.owner.job_progressed(job, progress)
    if job.on_progress is not None:
        job.on_progress(progress, job.job_id)
