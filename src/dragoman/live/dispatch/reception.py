"""Letting jobs wait for a slot, and calling them when one may be free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import islice
from math import inf
from typing import Any

from dragoman import errors
from dragoman.clock import Clock
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import waits_forever
from dragoman.live.dispatch.refusal import NEVER_WAITS
from dragoman.live.dispatch.waiting import Demand, WaitingRoom
from dragoman.live.protocol import WaitingView
from dragoman.observability import get_logger

log = get_logger("dragoman.dispatch")

_MOST_TOGETHER = 64
"""Jobs of a line that look for a slot at the same time."""


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
        self._slots = 0.0
        """How many who wait may be served before there is nothing left to find."""
        self.wakes = 0
        """How often slots or nodes came. Who looked for a slot before the last time may have
        missed one."""

    def __len__(self) -> int:
        return len(self._live) + len(self._batch)

    def wake(self, slots: float = inf) -> None:
        """Slots or nodes came: let those who wait try again, as many as there are slots."""
        self.wakes += 1
        self._slots += slots
        if not self._calling and len(self):
            self._calling = True
            self._spawn(self._call())

    def stand_behind(self, job: LiveJob) -> bool:
        """Stand in line without looking, where others already wait for the same."""
        if waits_forever(job.spec):
            return self._batch.has_line(job.demand) and self._stand(job, self._batch)
        return job.may_wait and self._live.has_line(job.demand) and self._stand(job, self._live)

    def wait(self, job: LiveJob, error: errors.DragomanError, *, wakes: int) -> bool:
        """Put the job in line, if it may wait and waiting can help.

        wakes is their number from before the job looked: a slot that came free while it was
        still looking is not missed.
        """
        batch = waits_forever(job.spec)
        if isinstance(error, NEVER_WAITS) and not (batch and job.may_wait):
            return False
        if not (batch or job.may_wait):
            return False
        if not self._stand(job, self._batch if batch else self._live):
            return False
        job.refusal = error
        if self.wakes != wakes:
            self.wake()
        return True

    def _stand(self, job: LiveJob, room: WaitingRoom[LiveJob]) -> bool:
        if not room.join(job):
            return False
        if room is self._live and job.pending_until is None:
            job.pending_until = self._clock.monotonic() + self._pending_seconds
        job.waiting = True
        return True

    def view(self, job: LiveJob) -> WaitingView:
        """The line a waiting job stands in, and why."""
        room = self._batch if waits_forever(job.spec) else self._live
        return WaitingView(
            pool=job.requirement.shown,
            in_line=room.length(job.requirement.pair),
            code=job.refusal.code if job.refusal else None,
            message=job.refusal.message if job.refusal else None,
        )

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
                slots, self._slots = self._slots, 0.0
                slots = await self._call_in(self._live, slots)
                await self._call_in(self._batch, slots)
        except errors.DependencyDown as down:
            log.warning_limited(
                "waiting_jobs_not_served", key="rooms", every_seconds=10, error=down.message
            )
        finally:
            self._calling = False

    async def _call_in(self, room: WaitingRoom[LiveJob], slots: float) -> float:
        """Serve those who wait, as long as slots may be left; answers how many may be.

        The first is called alone, then twice as many each time, of those whose demand can be met:
        a line moves no slower because the ledger is far away, and one that cannot move costs few
        questions.
        """
        unmet: set[Demand] = set()
        together = 1
        while slots > 0:
            in_line = (job for job in room.line(unmet) if not job.allocating)
            called = list(islice(in_line, int(min(together, slots))))
            if not called:
                break
            served = await asyncio.gather(
                *(self._call_up(job, room, unmet) for job in called), return_exceptions=True
            )
            for answer in served:
                if isinstance(answer, BaseException):
                    raise answer
                slots -= answer
            together = min(2 * together, _MOST_TOGETHER)
        return slots

    async def _call_up(self, job: LiveJob, room: WaitingRoom[LiveJob], unmet: set[Demand]) -> bool:
        """Let a job try again; False when it found no slot and waits on."""
        error = await self._place(job)
        if error is not None:
            job.refusal = error
            unmet.add(job.demand)
            return False
        room.served(job)
        job.waiting = False
        return True
