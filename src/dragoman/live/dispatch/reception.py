"""Letting jobs wait for a slot, and calling them when one may be free."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import waits_forever
from dragoman.live.dispatch.refusal import NEVER_WAITS
from dragoman.live.dispatch.waiting import Demand, WaitingRoom
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")


class Reception:
    """Two rooms: live jobs wait for a while and are called first, batch jobs wait for ever."""

    def __init__(
        self,
        *,
        place: Callable[[LiveJob], Awaitable[errors.DragomanError | None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        pending_seconds: float,
        pending_per_pair: int,
        clock: Clock,
    ) -> None:
        self._place = place
        self._spawn = spawn
        self._pending_seconds = pending_seconds
        self._clock = clock
        self._live = WaitingRoom[LiveJob](pending_per_pair)
        self._batch = WaitingRoom[LiveJob](None)
        self._calling = False
        self.wakes = 0
        """How often slots or nodes came. Who looked for a slot before the last time may have
        missed one."""

    def __len__(self) -> int:
        return len(self._live) + len(self._batch)

    def wake(self) -> None:
        """Slots or nodes came: let those who wait try again."""
        self.wakes += 1
        if not self._calling and len(self):
            self._calling = True
            self._spawn(self._call())

    def wait(self, job: LiveJob, error: errors.DragomanError, *, wakes: int) -> bool:
        """Put the job in line, if it may wait and waiting can help.

        wakes is their number from before the job looked: a slot that came free while it was
        still looking is not missed.
        """
        if waits_forever(job.spec):
            if isinstance(error, NEVER_WAITS) and not job.may_wait:
                return False
            self._batch.join(job)
        elif not job.may_wait or isinstance(error, NEVER_WAITS) or not self._live.join(job):
            return False
        elif job.pending_until is None:
            job.pending_until = self._clock.monotonic() + self._pending_seconds
        job.waiting = True
        job.refusal = error
        if self.wakes != wakes:
            self.wake()
        return True

    def waiting_batch(self) -> list[LiveJob]:
        """Batch jobs in line."""
        return list(self._batch)

    def leave(self, job: LiveJob) -> None:
        """The job waits no more."""
        job.waiting = False
        self._live.leave(job.job_id)
        self._batch.leave(job.job_id)

    async def _call(self) -> None:
        try:
            seen = -1
            while seen != self.wakes:
                seen = self.wakes
                await self._call_in(self._live)
                await self._call_in(self._batch)
        except errors.DependencyDown as down:
            log.warning_limited(
                "waiting_jobs_not_served", key="rooms", every_seconds=10, error=down.message
            )
        finally:
            self._calling = False

    async def _call_in(self, room: WaitingRoom[LiveJob]) -> None:
        unmet: set[Demand] = set()
        while (job := room.head(unmet)) is not None:
            if job.allocating:
                unmet.add(job.demand)
                continue
            error = await self._place(job)
            if error is not None:
                job.refusal = error
                unmet.add(job.demand)
            else:
                room.served(job)
                job.waiting = False
