"""Jobs that the ledger lost: their waiters are told, though nothing is stored."""

from __future__ import annotations

import msgspec

from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import ErrorInfo, JobState, Outcome

FORGOTTEN = ErrorInfo(
    "SCHEDULER_DEPENDENCY_DOWN", "The ledger lost its memory of the job; send it again."
)


def forgotten(known: JobRecord, now_ms: int) -> JobRecord:
    """The end of a job that is gone from the ledger, from what was known of it."""
    return msgspec.structs.replace(
        known,
        state=JobState.FINISHED,
        current=None,
        outcome=Outcome.FAILED,
        error=FORGOTTEN,
        finished_at_ms=now_ms,
    )
