"""How many wrong keys an address may try: a pure count that drains with time."""

from __future__ import annotations

from dataclasses import dataclass

from cachetools import FIFOCache

from dragoman.addresses import address_group
from dragoman.clock import Clock
from dragoman.errors import RateLimited

MAX_ADDRESSES = 10_000
"""Addresses remembered; beyond that the one that failed longest ago is forgotten."""


@dataclass(slots=True)
class _Level:
    failures: float
    at_seconds: float


class FailureLimit:
    """Counts failed attempts an address; the count drains at the rate that is allowed."""

    def __init__(self, clock: Clock, failures_per_minute: int) -> None:
        """A rate of 0 means that there is no limit."""
        self._clock = clock
        self._burst = failures_per_minute
        self._per_second = failures_per_minute / 60
        self._levels: FIFOCache[str, _Level] = FIFOCache(MAX_ADDRESSES)

    def check(self, address: str) -> None:
        """Refuse an address that has used up its failures, and say when it may try again."""
        level = self._current(address_group(address))
        if self._burst == 0 or level + 1 <= self._burst:
            return
        wait_seconds = (level + 1 - self._burst) / self._per_second
        raise RateLimited(
            "Too many wrong keys came from this address; wait, and check the key.",
            retry_after_ms=max(1, round(wait_seconds * 1000)),
        )

    def record(self, address: str) -> None:
        """Count one failure, or refuse it when the address has none left."""
        if self._burst == 0:
            return
        self.check(address)
        group = address_group(address)
        self._levels[group] = _Level(self._current(group) + 1, self._clock.monotonic())

    def _current(self, group: str) -> float:
        level = self._levels.get(group)
        if level is None:
            return 0.0
        elapsed = self._clock.monotonic() - level.at_seconds
        return max(0.0, level.failures - elapsed * self._per_second)
