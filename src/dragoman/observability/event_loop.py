"""Keeping the event loop free: measuring how late it is, and giving way in long passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from dragoman.clock import Clock
from dragoman.observability.events import get_logger
from dragoman.observability.metrics import Metrics

T = TypeVar("T")

_WARN_EVERY_SECONDS = 10.0


class LoopLag:
    """Measures how late the event loop wakes a sleeper: what every other task waits, too."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        *,
        interval_seconds: float = 0.1,
        warn_ms: float = 100.0,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._warn_seconds = warn_ms / 1000
        self._log = get_logger(__name__, clock)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin measuring on the running loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._measure(), name="loop-lag")

    async def stop(self) -> None:
        """Stop measuring; does nothing if it never began."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _measure(self) -> None:
        while True:
            slept_at = self._clock.monotonic()
            await asyncio.sleep(self._interval_seconds)
            # A loop that counts time in whole milliseconds may wake a little early.
            lag = max(0.0, self._clock.monotonic() - slept_at - self._interval_seconds)
            self._metrics.event_loop_lag.observe(lag)
            if lag > self._warn_seconds:
                self._log.warning_limited(
                    "event_loop_lag",
                    key="event_loop_lag",
                    every_seconds=_WARN_EVERY_SECONDS,
                    lag_ms=round(lag * 1000, 3),
                )


async def yielding(items: Iterable[T], clock: Clock, *, every_ms: float = 2.0) -> AsyncIterator[T]:
    """The items, one after another, letting other tasks run every `every_ms`.

    Whatever is iterated must bear being changed by those tasks: pass a copy of a dict or a set.
    """
    budget_seconds = every_ms / 1000
    resumed_at = clock.monotonic()
    for item in items:
        yield item
        if clock.monotonic() - resumed_at >= budget_seconds:
            await asyncio.sleep(0)
            resumed_at = clock.monotonic()
