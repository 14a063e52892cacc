"""The time an item may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from dragoman.clock import Clock
from dragoman.errors import ItemTimeout
from dragoman.lab.targets import StillWaits

T = TypeVar("T")


class Allowance:
    """What is left of an item's time.

    Only the calls made for it count, each moment once, however many run side by side. While the
    item waits for a rate limit, for its next try or for the database, nothing is used up; nor while
    a call says that it waits in line.
    """

    def __init__(self, seconds: float | None, clock: Clock) -> None:
        self._seconds = seconds
        self._used = 0.0
        self._clock = clock
        self._calls = 0
        self._began = 0.0
        self._paused = False
        self._still_waits: StillWaits | None = None
        """Asks whether the call that waits in line still does."""
        self._timer: asyncio.Timeout | None = None
        """Ends the call that was begun last."""

    @property
    def used_up(self) -> bool:
        return self._seconds is not None and self._left(self._seconds) <= 0

    @property
    def limit_seconds(self) -> float | None:
        return self._seconds

    async def waits_in_line(self) -> bool:
        """Whether the call in progress is known not to be served yet: nothing is paid for it."""
        asked = self._still_waits
        return asked is not None and await asked() and self._still_waits is asked

    def pause(self, still_waits: StillWaits | None = None) -> None:
        """Stop counting while the one call in progress waits in line, and is not served yet."""
        if self._calls != 1:
            return
        self._still_waits = still_waits
        if self._paused:
            return
        self._used += self._clock.monotonic() - self._began
        self._paused = True
        if self._timer is not None:
            self._timer.reschedule(None)

    def resume(self) -> None:
        """Count again."""
        self._still_waits = None
        if not self._paused:
            return
        self._paused = False
        self._began = self._clock.monotonic()
        if self._timer is not None and self._seconds is not None:
            left_seconds = max(0.0, self._seconds - self._used)
            self._timer.reschedule(asyncio.get_running_loop().time() + left_seconds)

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
        limit: asyncio.Timeout | None = None
        try:
            begun = _Begun(call())
            if begun.ended:
                return await begun
            limit = asyncio.timeout(None if self._paused else left_seconds)
            async with limit:
                self._timer = limit
                return await begun
        except TimeoutError:
            if limit is None or not limit.expired():
                raise
            raise self._timeout(self._seconds) from None
        finally:
            self._calls -= 1
            self._timer = None
            self._still_waits = None
            if self._calls == 0 and not self._paused:
                self._used += self._clock.monotonic() - self._began
            self._paused = False

    def _left(self, seconds: float) -> float:
        counting = self._calls and not self._paused
        running = self._clock.monotonic() - self._began if counting else 0.0
        return seconds - self._used - running

    def _timeout(self, seconds: float) -> ItemTimeout:
        return ItemTimeout(f"The item took longer than {seconds:g} s.")


class _Begun(Generic[T]):
    """A call that has run up to its first wait.

    One that has ended by then, as most evaluators have, needs no timer, which costs more than it.
    """

    def __init__(self, call: Awaitable[T]) -> None:
        self._steps = call.__await__()
        self._waits_for: Any = None
        self._value: list[T] = []
        try:
            self._waits_for = next(self._steps)
        except StopIteration as end:
            self._value.append(end.value)

    @property
    def ended(self) -> bool:
        return bool(self._value)

    def __await__(self) -> Generator[Any, Any, T]:
        """The rest of the call, in the task that began it."""
        while not self._value:
            try:
                try:
                    heard = yield self._waits_for
                except BaseException as error:
                    self._waits_for = self._steps.throw(error)
                else:
                    self._waits_for = self._steps.send(heard)
            except StopIteration as end:
                self._value.append(end.value)
        return self._value[0]
