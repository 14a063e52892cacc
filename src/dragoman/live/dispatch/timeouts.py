"""When a job's time is up: for an acknowledgement, for its run, for waiting, for all of it.

Every dispatched job has the same time to be acknowledged, so those times are a queue, and arming
one is an append. When it is up, most jobs have ended; the few others move to the heap, where all
times of other lengths are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from dragoman.clock import Clock
from dragoman.ids import AttemptId, JobId
from dragoman.live.dispatch.job import Job

TURN_SECONDS = 0.002
"""How long one turn may look at jobs whose time is up; the rest have the next turn."""

_AT_A_TIME = 256
"""How many attempts are passed over, because they have ended, before the clock is read."""

_PASSED_OVER = 4 * _AT_A_TIME
"""How many attempts that have ended are passed over at most before their time is up."""

_RESOLUTION_SECONDS = 0.005
"""How long after a look the next one may come."""


class Timeouts:
    """One timer for all jobs. Moving a deadline later costs nothing: the look finds it moved."""

    def __init__(
        self,
        attempts: dict[AttemptId, Job],
        jobs: dict[JobId, Job],
        look: Callable[[Job, float], None],
        ack_seconds: float,
        clock: Clock,
    ) -> None:
        """look is told of each job that may be due, and acts on what is."""
        self._attempts = attempts
        self._jobs = jobs
        self._look = look
        self._ack_seconds = ack_seconds
        self._clock = clock
        self._acks: deque[tuple[float, AttemptId]] = deque()
        self._later: list[tuple[float, JobId]] = []
        """When to look at which job; those that were planned anew meanwhile are passed over."""
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._timer_at = inf

    def dispatched(self, attempt_id: AttemptId, now: float) -> None:
        """Look at an attempt when its time for an acknowledgement is up."""
        at = now + self._ack_seconds
        self._acks.append((at, attempt_id))
        if at < self._timer_at:
            self._set_timer(at, now)

    def plan(self, job: Job, now: float) -> None:
        """Look at the job at its next deadline, if no earlier look is planned."""
        at = next_deadline(job)
        if at < job.look_at:
            job.look_at = at
            heappush(self._later, (at, job.job_id))
            if at < self._timer_at:
                self._set_timer(at, now)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, at: float, now: float) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, at - now), self._fire)
        self._timer_at = at

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = inf
        now = began = self._clock.monotonic()
        acks, later, attempts = self._acks, self._later, self._attempts
        while now - began < TURN_SECONDS:
            if acks and acks[0][0] <= now:
                # Nearly all of them have ended by now.
                for _ in range(min(_AT_A_TIME, len(acks))):
                    job = attempts.get(acks.popleft()[1])
                    if job is not None or not acks or acks[0][0] > now:
                        break
            elif later and later[0][0] <= now:
                at, job_id = heappop(later)
                job = self._jobs.get(job_id)
                if job is None or job.look_at != at:
                    continue
                job.look_at = inf
            else:
                break
            if job is not None:
                self._look(job, now)
            now = self._clock.monotonic()
        else:
            # Others have their turn first.
            self._timer_at = now
            self._timer = asyncio.get_running_loop().call_soon(self._fire)
            return
        # Attempts that have ended need no look when their time is up, and so no timer.
        for _ in range(_PASSED_OVER):
            if not acks or acks[0][1] in attempts:
                break
            acks.popleft()
        first = min(acks[0][0] if acks else inf, later[0][0] if later else inf)
        if first < self._timer_at:
            # A timer for each of very many attempts would cost more than what it is for.
            self._set_timer(max(first, now + _RESOLUTION_SECONDS), now)


def next_deadline(job: Job) -> float:
    """When the job must be looked at, if nothing happens before."""
    at = job.total_until
    if job.is_out:
        return min(at, job.run_until)
    if job.waiting and job.pending_until < at:
        at = job.pending_until
    return min(at, job.heir_until)
