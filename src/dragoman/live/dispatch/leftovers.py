"""Why a result came that no job waits for."""

from __future__ import annotations

from dragoman.ids import AttemptId, NodeId
from dragoman.live.ledger import JobRecord, StaleReason
from dragoman.live.protocol import Outcome

GIVEN_UP = frozenset({"JOB_TIMEOUT", "JOB_CANCELLED", "NODE_UNAVAILABLE", "PREEMPTED"})
"""Ends that an attempt gets without its node's word."""


def why_dropped(job: JobRecord | None, attempt_id: AttemptId, node_id: NodeId) -> StaleReason:
    """What the job remembers of an attempt that its cell has forgotten."""
    past = next((a for a in job.attempts if a.attempt_id == attempt_id), None) if job else None
    if job is None or past is None or past.outcome is None:
        return StaleReason.UNKNOWN
    if past.node_id != node_id:
        return StaleReason.WRONG_NODE
    if past.outcome is Outcome.SUCCESS:
        return StaleReason.DUPLICATE
    if past.error is not None and past.error.code in GIVEN_UP:
        return StaleReason.LATE
    return StaleReason.DUPLICATE if past is job.attempts[-1] else StaleReason.OLD_ATTEMPT
