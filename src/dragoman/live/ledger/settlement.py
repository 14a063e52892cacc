"""What the end of an attempt means for its job.

The fast path and the sweep take the same fenced steps, so it does not matter which of them, or
how many, come to it first: a job gets one end.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Ending, Keep
from dragoman.live.ledger.interface import Ledger
from dragoman.live.ledger.records import AttemptRecord, JobRecord, PastAttempt, Times
from dragoman.live.protocol import ErrorInfo, Outcome

NO_ACK = ErrorInfo(code="JOB_TIMEOUT", message="The node did not acknowledge the job in time.")
RAN_TOO_LONG = ErrorInfo(code="JOB_TIMEOUT", message="The node worked on the job for too long.")
OUT_OF_TIME = ErrorInfo(code="JOB_TIMEOUT", message="The job's total time is up.")
FORGOTTEN = ErrorInfo(code="NODE_UNAVAILABLE", message="The scheduler lost track of the attempt.")
PREEMPTED_CODE = "PREEMPTED"
CANCELLED_CODE = "JOB_CANCELLED"


class Terms(msgspec.Struct, frozen=True):
    """The times and limits that a job's course is held to."""

    ack_ms: int
    run_ms: int
    total_ms: int
    lease_ms: int
    """How long an acknowledged attempt is held without a heartbeat."""
    grace_ms: int
    """How long a node has to answer a cancel."""
    max_attempts: int
    keep: Keep


class JobDone(msgspec.Struct, frozen=True):
    """The job has ended, by this step or an earlier one."""

    job: JobRecord


class TryAgain(msgspec.Struct, frozen=True):
    """The job is CREATED again, and its driver goes on with it."""

    job: JobRecord


class NothingToDo(msgspec.Struct, frozen=True):
    """The attempt is over and its job goes on without it."""


Step = JobDone | TryAgain | NothingToDo


def final_error(job: JobRecord, last: ErrorInfo, max_attempts: int) -> ErrorInfo | None:
    """What the job ends with after a failed attempt, or None when it may try again."""
    if not last.retryable:
        return last
    if job.attempts_used >= max_attempts:
        return ErrorInfo(
            code="ATTEMPTS_EXHAUSTED",
            message=f"All {max_attempts} attempts failed; the last one with {last.code}.",
            details={"last": last.code},
        )
    return None


class Settlement:
    """Carries ended attempts to their jobs."""

    def __init__(
        self,
        ledger: Ledger,
        terms: Terms,
        instance_id: InstanceId,
        drives: Callable[[JobId], bool] | None = None,
    ) -> None:
        """drives tells which jobs this instance drives; None: all that come by."""
        self._ledger = ledger
        self._terms = terms
        self._instance_id = instance_id
        self._drives = drives

    async def take(self, attempt: AttemptRecord) -> Step:
        """Bring a FINISHED attempt's outcome to its job, then let the cell forget it."""
        if attempt.outcome is Outcome.SUCCESS:
            ending = Ending(Outcome.SUCCESS, output=attempt.output)
            return await self.succeeded(
                attempt.cell, attempt.job_id, attempt.attempt_id, ending, attempt.times
            )
        error = attempt.error or ErrorInfo(
            code="INTERNAL_ERROR", message="The attempt failed without saying why."
        )
        step = await self.failed(attempt, error)
        await self._ledger.settle(attempt.cell, (attempt.attempt_id,))
        return step

    async def succeeded(
        self, cell: int, job_id: JobId, attempt_id: AttemptId, ending: Ending, times: Times
    ) -> Step:
        """Bring a success to the job, then let the cell forget the attempt."""
        answer = await self._ledger.end(
            job_id, attempt_id, ending, times=times, keep=self._terms.keep
        )
        await self._ledger.settle(cell, (attempt_id,))
        return JobDone(answer.job) if isinstance(answer, a.Ended) else NothingToDo()

    async def failed(self, attempt: AttemptRecord, error: ErrorInfo) -> Step:
        """The attempt brought nothing: try again, or end the job with the reason."""
        if not error.retryable:
            return await self.end(attempt, Ending(Outcome.FAILED, error=error))
        return await self._retry(attempt.job_id, attempt.attempt_id, error, attempt.times)

    async def cancelled(self, attempt: AttemptRecord, error: ErrorInfo) -> Step:
        """The attempt was won back from its node for this reason."""
        if error.code == CANCELLED_CODE:
            return await self.end(attempt, Ending(Outcome.CANCELLED, error=error))
        return await self.failed(attempt, error)

    async def forgotten(self, job: JobRecord, current: PastAttempt) -> Step:
        """The job's current attempt is one that its cell no longer knows."""
        return await self._retry(job.job_id, current.attempt_id, FORGOTTEN, current.times)

    async def shut_out(self, attempt: AttemptRecord, error: ErrorInfo) -> Step | None:
        """Make sure that no driver can bind the attempt from now on; None: none ever has.

        Only then may its slot be given back at once: the driver of a bound attempt tells the
        node, which may be working on it.
        """
        answer = await self._ledger.retry(
            attempt.job_id,
            attempt.attempt_id,
            error,
            times=attempt.times,
            instance_id=None,
            claim_ms=self._terms.ack_ms,
        )
        match answer:
            case a.Retrying(job):
                return await self._try_again(job, error)
            case a.NotCurrent(job) | a.Ended(job):
                past = (past for past in job.attempts if past.attempt_id == attempt.attempt_id)
                return NothingToDo() if any(one.bound for one in past) else None
            case a.JobGone():
                return NothingToDo()

    async def end_without_attempt(self, job_id: JobId, ending: Ending) -> Step:
        """End a job that has no live attempt."""
        answer = await self._ledger.end(job_id, None, ending, keep=self._terms.keep)
        return JobDone(answer.job) if isinstance(answer, a.Ended) else NothingToDo()

    async def cancel(self, attempt: AttemptRecord, error: ErrorInfo) -> a.CancelWon | None:
        """Win an attempt back from its node; None when it was over already."""
        answer = await self._ledger.cancel(
            attempt.cell, attempt.attempt_id, error, grace_ms=self._terms.grace_ms
        )
        return answer if isinstance(answer, a.CancelWon) else None

    async def _retry(
        self, job_id: JobId, attempt_id: AttemptId, error: ErrorInfo, times: Times
    ) -> Step:
        ours = self._drives is None or self._drives(job_id)
        answer = await self._ledger.retry(
            job_id,
            attempt_id,
            error,
            times=times,
            instance_id=self._instance_id if ours else None,
            claim_ms=self._terms.ack_ms,
            preempted=error.code == PREEMPTED_CODE,
        )
        if not isinstance(answer, a.Retrying):
            return NothingToDo()
        return await self._try_again(answer.job, error)

    async def _try_again(self, job: JobRecord, error: ErrorInfo) -> Step:
        """Go on with a job that lost its attempt, unless that was its last."""
        final = final_error(job, error, self._terms.max_attempts)
        if final is None:
            return TryAgain(job)
        return await self.end_without_attempt(job.job_id, Ending(Outcome.FAILED, error=final))

    async def end(self, attempt: AttemptRecord, ending: Ending) -> Step:
        """Give the job its end from this attempt, if it is the current one."""
        answer = await self._ledger.end(
            attempt.job_id,
            attempt.attempt_id,
            ending,
            times=attempt.times,
            keep=self._terms.keep,
        )
        return JobDone(answer.job) if isinstance(answer, a.Ended) else NothingToDo()
