"""One budget over all bytes that the process keeps for others."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Bytes kept for clients and nodes together: audio, inputs that wait, results."""

    def __init__(
        self,
        limit_bytes: int,
        *,
        beside: Callable[[], int] = lambda: 0,
        let_go: Callable[[int], None] = lambda size_bytes: None,
    ) -> None:
        """beside tells what the ledger keeps in this process; let_go has it drop what it may."""
        self._limit = limit_bytes
        self._charged = 0
        self._beside = beside
        self._let_go = let_go

    @property
    def used(self) -> int:
        return self._charged + self._beside()

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more may be kept."""
        over = self.used + size_bytes - self._limit
        if over > 0:
            self._let_go(over)
        return self.used + size_bytes <= self._limit

    def change(self, delta_bytes: int) -> bool:
        """Count bytes kept or let go; False when the limit is passed."""
        self._charged += delta_bytes
        return self.has_room(0)
