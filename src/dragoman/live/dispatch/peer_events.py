"""What other instances say about jobs. All of it is a hint: the ledger is asked what is so."""

from __future__ import annotations

from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.hosting import Hosting
from dragoman.live.dispatch.orders import Progress
from dragoman.live.ledger import Inherited, JobRecord, Ledger, TryAgain
from dragoman.live.protocol import JobPartial, RunningJob


class PeerEvents:
    """Takes hints to the jobs that this instance drives, or waits for."""

    def __init__(
        self,
        ledger: Ledger,
        course: Course,
        instance_id: InstanceId,
        hosting: Hosting | None = None,
    ) -> None:
        self._ledger = ledger
        self._course = course
        self._instance_id = instance_id
        self._hosting = hosting

    async def ended(self, job_id: JobId) -> JobRecord | None:
        """A job has its end: its waiters here are told; returns the job, if it is so."""
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
            # Beside: finding a slot may take longer than a note may.
            self._course.run(self._go_on(record))

    async def _go_on(self, record: JobRecord) -> None:
        job = self._course.jobs.get(record.job_id)
        if job is not None and job.attempt is not None and job.attempt.is_last_of(record):
            await self._course.follow(TryAgain(record))
        else:
            await self._course.resume(record)

    def inherited(self, job_id: JobId, attempt_id: AttemptId) -> None:
        """A slot passed to a job that waits for it."""
        self._course.inherited(Inherited(job_id, attempt_id))

    def progressed(self, running: RunningJob, progress: Progress) -> None:
        """An attempt took a step."""
        job = self._course.attempts.get(running.attempt_id)
        if job is not None:
            job.progressed(progress)
        else:
            self._course.lookout.progressed(running.job_id, progress)

    def partial(self, partial: JobPartial) -> None:
        """What a node has recognised so far."""
        job = self._course.attempts.get(partial.attempt_id)
        if job is None:
            self._course.lookout.partial(partial)
        elif job.on_partial is not None:
            job.on_partial(partial)

    def watched(
        self, job_id: JobId, attempt_id: AttemptId | None, watcher: InstanceId, steps: bool
    ) -> None:
        """Another instance holds the session of a job, and wants to hear how it goes on."""
        job = self._course.jobs.get(job_id)
        if job is not None:
            if self._course.watching is not None and watcher != self._instance_id:
                self._course.watching.pass_on(job, watcher, steps)
        elif self._hosting is not None and attempt_id is not None:
            self._hosting.watched(attempt_id, watcher, steps)

    def freed(self, slots: int) -> None:
        """Slots came free: jobs that wait here may have them."""
        self._course.reception.wake(slots)
