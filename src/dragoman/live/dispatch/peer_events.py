"""What other instances say about jobs. All of it is a hint: the ledger is asked what is so."""

from __future__ import annotations

from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.orders import Progress
from dragoman.live.ledger import Inherited, JobRecord, Ledger
from dragoman.live.protocol import JobPartial


class PeerEvents:
    """Takes hints to the jobs that this instance drives, or waits for."""

    def __init__(self, ledger: Ledger, course: Course, instance_id: InstanceId) -> None:
        self._ledger = ledger
        self._course = course
        self._instance_id = instance_id

    async def ended(self, job_id: JobId) -> JobRecord | None:
        """A job has its end: whoever waits for it here is told; the job, if it is so."""
        record = await self._ledger.read(job_id)
        if record is None or not record.ended:
            return None
        self._course.ended(record)
        return record

    async def try_again(self, job_id: JobId) -> None:
        """A job lost its attempt and needs another."""
        record = await self._ledger.read(job_id)
        if record is None:
            return
        if record.ended:
            self._course.ended(record)
        elif record.current is None and record.claimed_by == self._instance_id:
            await self._course.resume(record)

    def inherited(self, job_id: JobId, attempt_id: AttemptId) -> None:
        """A slot passed to a job that waits for it."""
        self._course.inherited(Inherited(job_id, attempt_id))

    def progressed(self, attempt_id: AttemptId, progress: Progress) -> None:
        """An attempt took a step."""
        job = self._course.attempts.get(attempt_id)
        if job is not None:
            job.progressed(progress)

    def partial(self, partial: JobPartial) -> None:
        """What a node has recognised so far."""
        job = self._course.attempts.get(partial.attempt_id)
        if job is not None and job.on_partial is not None:
            job.on_partial(partial)

    def freed(self, slots: int) -> None:
        """Slots came free: jobs that wait here may have them."""
        self._course.reception.wake(slots)
