"""Giving up on what a job waits for: a node, a slot, or a slot it was to inherit."""

from __future__ import annotations

from typing import Protocol

from dragoman import errors
from dragoman.clock import Clock
from dragoman.live.dispatch.inheritance import Inheritances
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.reach import Reach
from dragoman.live.dispatch.reception import Reception
from dragoman.live.dispatch.under_way import UnderWay
from dragoman.live.ledger import AttemptRecord, CancelWon, Ending, Settlement, Step, Terms
from dragoman.live.protocol import ErrorInfo, RunningJob


class GoingOn(Protocol):
    """What giving up needs of the course a job takes."""

    async def place(self, job: LiveJob) -> errors.DragomanError | None: ...
    async def refuse(self, job: LiveJob, error: errors.DragomanError) -> None: ...
    async def look_again(self, job: LiveJob) -> None: ...
    async def is_looked_after(self, job: LiveJob) -> bool: ...
    async def follow(self, step: Step) -> None: ...


class GivingUp:
    """Takes a job back from where it got stuck, and sends it on or ends it."""

    def __init__(
        self,
        *,
        settlement: Settlement,
        terms: Terms,
        course: GoingOn,
        under_way: UnderWay,
        reception: Reception,
        inheritances: Inheritances,
        reach: Reach,
        clock: Clock,
    ) -> None:
        self._settlement = settlement
        self._terms = terms
        self._course = course
        self._under_way = under_way
        self._reception = reception
        self._inheritances = inheritances
        self._reach = reach
        self._clock = clock

    async def give_up(self, attempt: AttemptRecord, error: ErrorInfo) -> None:
        """Win the attempt back from its node and go on without it."""
        won = await self._settlement.cancel(attempt, error)
        if won is not None:
            step = await self._settlement.failed(attempt, error)
            self._tell(won, attempt, error)
            await self._course.follow(step)
            return
        job = self._under_way.attempts.get(attempt.attempt_id)
        if job is not None:
            await self.catch_up(job)

    async def end_by_force(self, attempt: AttemptRecord, ending: Ending, reason: ErrorInfo) -> None:
        """End a job whose attempt is still out: the attempt is won back first."""
        won = await self._settlement.cancel(attempt, reason)
        if won is not None:
            step = await self._settlement.end(attempt, ending)
            self._tell(won, attempt, reason)
            await self._course.follow(step)

    async def stop_waiting(self, job: LiveJob) -> None:
        """The job has waited long enough, unless a slot is being tried for it right now."""
        if job.allocating:
            return
        self._reception.leave(job)
        try:
            error = await self._course.place(job)
            if error is not None:
                await self._course.refuse(job, error)
        except errors.DependencyDown as down:
            # Neither a slot nor the refusal could be stored: it waits on until one can.
            if not job.ended:
                self._reception.wait(job, job.refusal or down, wakes=self._reception.wakes)
            raise

    async def stop_expecting(self, job: LiveJob) -> None:
        """The slot the job was to inherit did not come in time."""
        await self._inheritances.overdue(job)

    async def catch_up(self, job: LiveJob) -> None:
        """An attempt could not be won back: take over what the ledger knows of the job."""
        attempt = job.attempt
        if attempt is not None:
            # Its end is on its way here; if it is not, the sweep brings it.
            grace = self._clock.monotonic() + self._terms.grace_ms / 1000
            attempt.deadline = attempt.look_at = grace
        if await self._course.is_looked_after(job) or job.attempt is not attempt:
            return
        self._under_way.let_go(job)
        await self._course.look_again(job)

    def _tell(self, won: CancelWon, attempt: AttemptRecord, reason: ErrorInfo) -> None:
        """Have the node stop, over the connection it has now.

        Only once the job knows: with the node's answer the attempt is gone, and a job that had
        not been told by then would wait for it in vain.
        """
        running = RunningJob(attempt.job_id, attempt.attempt_id)
        self._reach.cancel(running, won.node_id, won.owner, reason.code)
