"""One timer for each job: somebody looks at it at its next deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.clock import Clock
from dragoman.live.dispatch.live_job import LiveJob

_SOONEST_AGAIN_SECONDS = 0.1
"""A look that changed nothing is not repeated at once: what it waits for is on its way."""


class Deadlines:
    """Arms the timers. Moving a deadline later costs nothing: the timer finds it moved."""

    def __init__(self, clock: Clock, due: Callable[[LiveJob], None]) -> None:
        self._clock = clock
        self._due = due

    def arm(self, job: LiveJob) -> None:
        """Look at the job at its next deadline, if no earlier look is planned."""
        at = job.next_deadline()
        if at is None or (job.timer is not None and job.timer_at <= at):
            return
        self._set(job, at)

    def arm_again(self, job: LiveJob) -> None:
        """Plan the next look, after one."""
        at = job.next_deadline()
        if at is not None and job.timer is None:
            self._set(job, max(at, self._clock.monotonic() + _SOONEST_AGAIN_SECONDS))

    def disarm(self, job: LiveJob) -> None:
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None

    def _set(self, job: LiveJob, at: float) -> None:
        self.disarm(job)
        delay = max(0.0, at - self._clock.monotonic())
        job.timer = asyncio.get_running_loop().call_later(delay, self._fire, job)
        job.timer_at = at

    def _fire(self, job: LiveJob) -> None:
        job.timer = None
        self._due(job)
