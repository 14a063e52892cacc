"""Clocks of machines whose wall-clock time is wrong, or is set while the program runs."""

from __future__ import annotations

from dragoman.clock import Clock


class WrongClock:
    """Another clock, whose wall-clock time is off; what it measures stays right."""

    def __init__(self, clock: Clock, ahead_seconds: float = 0.0) -> None:
        self._clock = clock
        self._ahead_ms = int(ahead_seconds * 1000)

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def step(self, seconds: float) -> None:
        """The operator sets the machine's time, forwards or back."""
        self._ahead_ms += int(seconds * 1000)
