"""Where the time comes from: everything that needs it is handed a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time. Sleeping is asyncio's job: on the virtual loop it costs nothing."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, for what people and other machines see."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring and for deadlines in this process."""
        ...


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    """The C function itself: it is asked several times a job."""


class ManualClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = start_ms
        self._elapsed = 0.0

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._elapsed += seconds
