"""How much one connection may ask of the process."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The bounds of one connection; all come from the settings."""

    max_frame_bytes: int
    queue_messages: int
    """Messages that may wait for a peer that reads slowly."""
    queue_bytes: int
    messages_per_second: float
    """What a peer may send, with a burst of one second's worth; 0 is no limit."""
    close_seconds: float = 5.0
    """How long a closed connection may go on sending what was queued before the close."""


class TokenBucket:
    """Lets `per_second` things through, on average, and at most one second's worth at once."""

    __slots__ = ("_burst", "_clock", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._tokens = self._burst = max(1.0, per_second)
        self._filled_at = clock.monotonic()

    def take(self) -> bool:
        """Whether one more may pass now."""
        if self._per_second <= 0:
            return True
        now = self._clock.monotonic()
        filled = self._tokens + (now - self._filled_at) * self._per_second
        self._tokens = min(filled, self._burst)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
