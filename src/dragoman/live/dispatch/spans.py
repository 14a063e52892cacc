"""A job's span: begun when it is asked for, over when it has its end."""

from __future__ import annotations

from dragoman.ids import JobId
from dragoman.live.dispatch.orders import JobOrder, Progress
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import Outcome
from dragoman.observability import Trace, Tracing

STEP_NAMES: dict[Progress, str] = {
    Progress.DISPATCHED: "dispatched",
    Progress.ACCEPTED: "acked",
    Progress.RUNNING: "running",
    Progress.FAILOVER: "failover",
}
"""What a step of a job is called in its span."""


def begin_span(tracing: Tracing, order: JobOrder, job_id: JobId, began: float) -> Trace:
    """The span of a job that was asked for a moment ago and has been claimed just now."""
    spec = order.spec
    attributes: dict[str, str | int] = {
        "dragoman.job_id": job_id,
        "dragoman.request_id": spec.request_id,
        "dragoman.tenant": spec.tenant,
        "dragoman.class": spec.job_class.value,
        "dragoman.pair": f"{spec.src_lang}:{spec.tgt_lang}",
        "dragoman.trace_id": spec.trace_id,
    }
    trace = tracing.begin(
        "job", spec.trace_id, parent=order.parent_span, began=began, attributes=attributes
    )
    trace.event("received", at=began)
    trace.event("claimed")
    return trace


def end_span(trace: Trace, record: JobRecord) -> None:
    """The job has its end."""
    outcome = record.outcome or Outcome.FAILED
    trace.event("finished", outcome=outcome.value, attempts=len(record.attempts))
    trace.end(record.error.code if record.error is not None else None)
