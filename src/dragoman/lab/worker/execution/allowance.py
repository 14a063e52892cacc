"""The time an item may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.clock import Clock
from dragoman.errors import ItemTimeout

T = TypeVar("T")


class Allowance:
    """What is left of an item's time.

    Only the calls made for it count, each moment once, however many run side by side. While the
    item waits for a rate limit, for its next try or for the database, nothing is used up.
    """

    def __init__(self, seconds: float | None, clock: Clock) -> None:
        self._seconds = seconds
        self._used = 0.0
        self._clock = clock
        self._calls = 0
        self._began = 0.0

    @property
    def used_up(self) -> bool:
        return self._seconds is not None and self._left(self._seconds) <= 0

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns or raises; `ItemTimeout` when the item's time ends before it."""
        if self._seconds is None:
            return await call()
        left_seconds = self._left(self._seconds)
        if left_seconds <= 0:
            raise self._timeout(self._seconds)
        if self._calls == 0:
            self._began = self._clock.monotonic()
        self._calls += 1
        limit = asyncio.timeout(left_seconds)
        try:
            async with limit:
                return await call()
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._timeout(self._seconds) from None
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._used += self._clock.monotonic() - self._began

    def _left(self, seconds: float) -> float:
        running = self._clock.monotonic() - self._began if self._calls else 0.0
        return seconds - self._used - running

    def _timeout(self, seconds: float) -> ItemTimeout:
        return ItemTimeout(f"The item took longer than {seconds:g} s.")
