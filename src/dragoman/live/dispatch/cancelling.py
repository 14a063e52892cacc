"""Ends a job at its caller's request, however far it has got."""

from __future__ import annotations

from dragoman import errors
from dragoman.ids import JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.ledger import Ended, Ending, JobRecord, Ledger, Settlement, Terms
from dragoman.live.protocol import AttemptState, ErrorInfo, Outcome

CANCELLED = ErrorInfo("JOB_CANCELLED", "The job was cancelled.", retryable=False)
_TRIES = 20


class Cancelling:
    """Cancels jobs, whichever instance drives them."""

    def __init__(
        self, ledger: Ledger, course: Course, settlement: Settlement, terms: Terms
    ) -> None:
        self._ledger = ledger
        self._course = course
        self._settlement = settlement
        self._terms = terms

    async def cancel(self, job_id: JobId) -> JobRecord:
        """End a job for its owner; raises JobEnded when it has its end already."""
        for _ in range(_TRIES):
            record = await self._ledger.read(job_id)
            if record is None:
                raise errors.NotFound(f"There is no job {job_id}.")
            if record.ended:
                raise errors.JobEnded(f"Job {job_id} has ended: {record.outcome}.")
            ended = await self._cancel(record)
            if ended is not None:
                return ended
        raise errors.InternalError(f"Job {job_id} changes faster than it can be cancelled.")

    async def _cancel(self, record: JobRecord) -> JobRecord | None:
        """One try; None when the job moved on meanwhile."""
        ending = Ending(Outcome.CANCELLED, error=CANCELLED)
        current = record.current_attempt
        if current is None:
            answer = await self._ledger.end(record.job_id, None, ending, keep=self._terms.keep)
            if isinstance(answer, Ended):
                return self._if_cancelled(answer.job)
            return None
        attempt = await self._ledger.read_attempt(current.cell, current.attempt_id)
        if attempt is None:
            # Its node has given it up, so no node can finish it any more.
            await self._ledger.end(
                record.job_id,
                current.attempt_id,
                ending,
                times=current.times,
                keep=self._terms.keep,
            )
        elif attempt.state is AttemptState.FINISHED:
            await self._course.follow(await self._settlement.take(attempt))
            return None
        else:
            await self._course.end_by_force(attempt, ending, CANCELLED)
        after = await self._ledger.read(record.job_id)
        return self._if_cancelled(after) if after and after.ended else None

    def _if_cancelled(self, record: JobRecord) -> JobRecord:
        self._course.ended(record)
        if record.outcome is not Outcome.CANCELLED:
            raise errors.JobEnded(f"Job {record.job_id} has ended: {record.outcome}.")
        return record
