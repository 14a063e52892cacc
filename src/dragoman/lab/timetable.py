"""Starts experiments with cron at their times."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.lab.experiments import Experiments
from dragoman.observability import get_logger

CORRECT_EVERY_SECONDS = 60.0


class Timetable:
    """Looks for experiments whose time has come; of several processes that look, one starts it."""

    def __init__(self, experiments: Experiments, clock: Clock, *, tick_seconds: float) -> None:
        self._experiments = experiments
        self._tick_seconds = tick_seconds
        self._clock = clock
        self._shown_ms = 0
        """What the clock showed at the last look."""
        self._corrected_at: float | None = None
        self._log = get_logger(__name__, clock)
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._loop = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Stop looking; times that pass meanwhile make one start later."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            try:
                await self.start_due()
            except DragomanError as error:
                self._log.warning_limited(
                    "lab_timetable_waits", key="", every_seconds=10, reason=error.message
                )
            except Exception:
                self._log.exception("lab_timetable_failed")
            await asyncio.sleep(self._tick_seconds)

    async def start_due(self) -> None:
        """Start every experiment whose time has come."""
        await self._correct()
        for due in await self._experiments.due_starts():
            try:
                run_id = await self._experiments.start_due(due)
            except DragomanError as error:
                # It stays due: the others are not held up by it.
                self._log.warning_limited(
                    "lab_start_waits",
                    key=due.experiment_id,
                    every_seconds=60,
                    experiment_id=due.experiment_id,
                    reason=error.message,
                )
                continue
            if run_id is not None:
                self._log.info(
                    "lab_run_due", experiment_id=due.experiment_id, run_id=run_id, due=due.due_ms
                )

    async def _correct(self) -> None:
        """Find next times that a clock set too late: at first, when it went back, and regularly.

        It may have been the clock of another machine, or this one's before the server started.
        """
        shown_ms, now = self._clock.now_ms(), self._clock.monotonic()
        went_back, self._shown_ms = shown_ms < self._shown_ms, shown_ms
        looked_lately = (
            self._corrected_at is not None and now - self._corrected_at < CORRECT_EVERY_SECONDS
        )
        if looked_lately and not went_back:
            return
        self._corrected_at = now
        for moved in await self._experiments.correct_times():
            self._log.warning(
                "lab_next_run_brought_forward", experiment_id=moved.experiment_id, was=moved.next_ms
            )
