"""How long a node or client waits before it reconnects."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.25
LONGEST_SECONDS = 15.0
REFUSED_SECONDS = 60.0
"""After a scheduler that has no place: its fleet does not shrink within seconds."""


class Backoff:
    """Waits twice as long each time, up to a limit, and never in step with other nodes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._failures = 0

    def next_seconds(self, *, refused: bool = False, at_least_seconds: float = 0.0) -> float:
        """The wait before the next try."""
        whole = REFUSED_SECONDS if refused else self._doubled()
        self._failures += 1
        return at_least_seconds + whole * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """All is well again: the next failure is the first."""
        self._failures = 0

    def _doubled(self) -> float:
        # The exponent is bounded, because a node may be left alone for months.
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 30))
