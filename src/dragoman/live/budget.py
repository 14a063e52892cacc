"""One budget over all bytes that the process keeps for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class ByteKeeper(Protocol):
    """What keeps bytes, and counts them."""

    size_bytes: int


class NothingKept:
    """Stands for a ledger that keeps nothing in this process."""

    size_bytes = 0


class ByteBudget:
    """Bytes kept for clients and nodes together: audio, inputs, results, unfinished requests."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._charged = 0
        self._elsewhere: ByteKeeper = NothingKept()
        self._let_go: Callable[[int], None] = lambda size_bytes: None

    def include(self, kept: ByteKeeper, let_go: Callable[[int], None]) -> None:
        """Count what a ledger in this process keeps; let_go has it drop what it may."""
        self._elsewhere = kept
        self._let_go = let_go

    @property
    def used(self) -> int:
        return self._charged + self._elsewhere.size_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more may be kept."""
        over = self._charged + self._elsewhere.size_bytes + size_bytes - self._limit
        if over <= 0:
            return True
        self._let_go(over)
        return self.used + size_bytes <= self._limit

    def take(self, size_bytes: int) -> bool:
        """Count bytes to be kept, if there is room for them."""
        if (
            self._charged + self._elsewhere.size_bytes + size_bytes > self._limit
            and not self.has_room(size_bytes)
        ):
            return False
        self._charged += size_bytes
        return True

    def change(self, delta_bytes: int) -> bool:
        """Count bytes kept or let go; False when the limit is passed."""
        charged = self._charged = self._charged + delta_bytes
        return (
            delta_bytes <= 0
            or charged + self._elsewhere.size_bytes <= self._limit
            or self.has_room(0)
        )
