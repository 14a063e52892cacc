"""A result that no job waits for is counted under the reason that holds."""

from __future__ import annotations

import pytest

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, RequestId, TenantId
from dragoman.live.dispatch.node_messages import why_dropped
from dragoman.live.ledger import JobRecord, JobSpec, PastAttempt, StaleReason
from dragoman.live.protocol import ErrorInfo, JobState, Outcome, Pipeline

HERE, THERE = NodeId("here"), NodeId("there")


def past(name: str, outcome: Outcome | None, code: str | None = None) -> PastAttempt:
    error = ErrorInfo(code, "on purpose") if code else None
    return PastAttempt(AttemptId(name), 0, HERE, outcome=outcome, error=error)


def job(*attempts: PastAttempt) -> JobRecord:
    return JobRecord(
        job_id=JobId("j"),
        spec=JobSpec(TenantId("t"), RequestId("r"), "zh", "en", Pipeline(use_nmt=True)),
        state=JobState.FINISHED,
        claimed_by=InstanceId("i"),
        created_at_ms=0,
        claim_until_ms=0,
        total_until_ms=None,
        attempts=attempts,
    )


WON = past("a", Outcome.SUCCESS)
FAILED = past("a", Outcome.FAILED, "GPU_ON_FIRE")
TIMED_OUT = past("a", Outcome.FAILED, "JOB_TIMEOUT")
NEXT = past("b", None)


@pytest.mark.parametrize(
    ("record", "node", "reason"),
    [
        (None, HERE, StaleReason.UNKNOWN),
        (job(), HERE, StaleReason.UNKNOWN),
        (job(WON), HERE, StaleReason.DUPLICATE),
        (job(WON), THERE, StaleReason.WRONG_NODE),
        (job(FAILED), HERE, StaleReason.DUPLICATE),
        (job(FAILED, NEXT), HERE, StaleReason.OLD_ATTEMPT),
        (job(TIMED_OUT), HERE, StaleReason.LATE),
        (job(TIMED_OUT, NEXT), HERE, StaleReason.LATE),
    ],
)
def test_the_reason_is_what_the_job_remembers(
    record: JobRecord | None, node: NodeId, reason: StaleReason
) -> None:
    assert why_dropped(record, AttemptId("a"), node) is reason
