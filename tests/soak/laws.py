"""What must hold during a soak: every breach is written down, everything else is counted."""

from __future__ import annotations

from collections import Counter

_MOST_KEPT = 50


class Laws:
    """The breaches that the load saw, and how much of everything there was."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.breach_count = 0
        self.counts: Counter[str] = Counter()

    def require(self, holds: bool, breach: str) -> None:
        """Write the breach down unless the law holds."""
        if holds:
            return
        self.breach_count += 1
        if len(self.breaches) < _MOST_KEPT:
            self.breaches.append(breach)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number
