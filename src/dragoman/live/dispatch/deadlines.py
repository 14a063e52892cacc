"""When a job's time is up: for an acknowledgement, for a run, for waiting, for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

from dragoman.clock import Clock
from dragoman.ids import JobId
from dragoman.live.dispatch.live_job import LiveAttempt, LiveJob
from dragoman.live.ledger import (
    NO_ACK,
    OUT_OF_TIME,
    RAN_TOO_LONG,
    AttemptRecord,
    Ending,
    Ledger,
    Settlement,
    Step,
    Terms,
)
from dragoman.live.protocol import AttemptState, ErrorInfo, Outcome

_SOONEST_AGAIN_SECONDS = 0.1
"""A look that changed nothing is not repeated at once: what it waits for is on its way."""

_AFTER_FAILURE_SECONDS = 1.0
_MOST_TOGETHER = 64
"""Looks at the same time. While the ledger does not answer, every job is overdue before long, and
asking for all of them at once would keep it from ever catching up."""


class Timed(Protocol):
    """What becomes of a job when time is up."""

    async def give_up(self, attempt: AttemptRecord, error: ErrorInfo) -> None: ...
    async def end_by_force(
        self, attempt: AttemptRecord, ending: Ending, reason: ErrorInfo
    ) -> None: ...
    async def stop_waiting(self, job: LiveJob) -> None: ...
    async def stop_expecting(self, job: LiveJob) -> None: ...
    async def catch_up(self, job: LiveJob) -> None: ...


class Deadlines:
    """One timer for all jobs. Moving a deadline later costs nothing: the look finds it moved."""

    def __init__(
        self,
        jobs: Mapping[JobId, LiveJob],
        ledger: Ledger,
        settlement: Settlement,
        terms: Terms,
        timed: Timed,
        follow: Callable[[Step], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
        *,
        look_seconds: float,
    ) -> None:
        """look_seconds: how often the ledger is asked about a silent attempt."""
        self._jobs = jobs
        self._ledger = ledger
        self._settlement = settlement
        self._run_ms = terms.run_ms
        self._timed = timed
        self._follow = follow
        self._spawn = spawn
        self._clock = clock
        self._look_seconds = look_seconds
        self._looks: list[tuple[float, JobId]] = []
        """When to look at which job; those that were planned anew meanwhile are passed over."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._room = asyncio.Semaphore(_MOST_TOGETHER)

    def arm(self, job: LiveJob) -> None:
        """Look at the job at its next deadline, if no earlier look is planned."""
        at = job.next_deadline()
        if at < job.look_at:
            self._plan(job, at)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm_again(self, job: LiveJob, soonest_seconds: float) -> None:
        at = job.next_deadline()
        if not job.ended and at != inf and job.look_at == inf:
            self._plan(job, max(at, self._clock.monotonic() + soonest_seconds))

    def _plan(self, job: LiveJob, at: float) -> None:
        job.look_at = at
        heappush(self._looks, (at, job.job_id))
        if at < self._timer_at:
            self._set_timer(at)

    def _set_timer(self, at: float) -> None:
        self.stop()
        delay = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._fire)
        self._timer_at = at

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = inf
        now = self._clock.monotonic()
        while self._looks and self._looks[0][0] <= now:
            at, job_id = heappop(self._looks)
            job = self._jobs.get(job_id)
            if job is not None and job.look_at == at:
                job.look_at = inf
                self._spawn(self._look_at(job))
        if self._looks:
            self._set_timer(self._looks[0][0])

    async def _look_at(self, job: LiveJob) -> None:
        try:
            async with self._room:
                await self._act(job, self._clock.monotonic())
        except BaseException:
            self._arm_again(job, _AFTER_FAILURE_SECONDS)
            raise
        self._arm_again(job, _SOONEST_AGAIN_SECONDS)

    async def _act(self, job: LiveJob, now: float) -> None:
        if job.ended:
            return
        attempt = job.attempt
        if job.deadline is not None and now >= job.deadline:
            await self._out_of_time(job)
        elif attempt is not None and now >= min(attempt.deadline, attempt.look_at):
            await self._look_at_attempt(job, attempt)
        elif job.inheritance is not None and now >= job.inheritance.until:
            await self._timed.stop_expecting(job)
        elif job.waiting and job.pending_until is not None and now >= job.pending_until:
            await self._timed.stop_waiting(job)

    async def _look_at_attempt(self, job: LiveJob, attempt: LiveAttempt) -> None:
        """Ask the ledger what became of the attempt; give it up when its time is over."""
        known = await self._ledger.read_attempt(attempt.cell, attempt.attempt_id)
        if job.attempt is not attempt:
            return
        if known is None:
            # It is over, and the word of it did not come here.
            await self._timed.catch_up(job)
            return
        if known.state is AttemptState.FINISHED:
            await self._follow(await self._settlement.take(known))
            return
        if known.times.accepted_ms:
            # A heartbeat that lists the attempt is as good as an acknowledgement.
            attempt.accepted(known.times.accepted_ms, self._clock.monotonic(), self._run_ms)
        now = self._clock.monotonic()
        if now < attempt.deadline:
            attempt.look_at = now + self._look_seconds
            return
        error = RAN_TOO_LONG if attempt.accepted_ms else NO_ACK
        await self._timed.give_up(attempt.record(job), error)

    async def _out_of_time(self, job: LiveJob) -> None:
        ending = Ending(Outcome.FAILED, error=OUT_OF_TIME)
        if job.attempt is not None:
            await self._timed.end_by_force(job.attempt.record(job), ending, OUT_OF_TIME)
        else:
            step = await self._settlement.end_without_attempt(job.job_id, ending)
            await self._follow(step)
        if not job.ended:
            await self._timed.catch_up(job)
