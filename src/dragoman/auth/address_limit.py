"""How often an address may do something: a pure count that drains with time."""

from __future__ import annotations

from dataclasses import dataclass

from cachetools import FIFOCache

from dragoman.addresses import address_group
from dragoman.clock import Clock
from dragoman.errors import RateLimited

MAX_ADDRESSES = 10_000
"""Addresses remembered; beyond that the one that was counted longest ago is forgotten."""


@dataclass(slots=True)
class _Level:
    count: float
    at_seconds: float


class AddressLimit:
    """Counts what an address does; the count drains at the rate that is allowed."""

    def __init__(self, clock: Clock, per_minute: int, refusal: str) -> None:
        """refusal: what an address over the limit is told. A rate of 0 means no limit."""
        self._clock = clock
        self._burst = per_minute
        self._per_second = per_minute / 60
        self._refusal = refusal
        self._levels: FIFOCache[str, _Level] = FIFOCache(MAX_ADDRESSES)

    def check(self, address: str) -> None:
        """Refuse an address that has used up its share, and say when it may try again."""
        if self._burst:
            self._room(address_group(address))

    def record(self, address: str) -> None:
        """Count once, or refuse it when the address has nothing left."""
        if self._burst:
            group = address_group(address)
            self._levels[group] = _Level(self._room(group) + 1, self._clock.monotonic())

    def _room(self, group: str) -> float:
        """The count of the address now, if once more is allowed."""
        level = self._levels.get(group)
        if level is None:
            return 0.0
        elapsed = self._clock.monotonic() - level.at_seconds
        count = max(0.0, level.count - elapsed * self._per_second)
        if count + 1 > self._burst:
            wait_seconds = (count + 1 - self._burst) / self._per_second
            raise RateLimited(self._refusal, retry_after_ms=max(1, round(wait_seconds * 1000)))
        return count
