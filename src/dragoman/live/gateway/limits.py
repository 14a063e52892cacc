"""How much one connection may ask of the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dragoman.clock import Clock
from dragoman.live.budget import ByteBudget


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


class SocketCount:
    """Counts open sockets by who holds them, up to a limit; 0 is no limit."""

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    def has_room(self, holder: str) -> bool:
        """Whether the holder may have one more."""
        return not self._limit or self._open[holder] < self._limit

    def add(self, holder: str) -> None:
        self._open[holder] += 1

    def remove(self, holder: str) -> None:
        self._open[holder] -= 1
        if not self._open[holder]:
            del self._open[holder]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """What connections may cost before it is known whose they are; all from the settings."""

    max_frame_bytes: int
    budget: ByteBudget
    """What all connections of the process may hold of messages that are not whole."""
    messages_per_second: float = 0
    """For sockets that have no limit of their own; 0 is no limit."""
    header_seconds: float = 0
    """How long a request may take to say what it is, once its connection is there; 0: for ever."""
    body_seconds: float = 0
    """How long its body may take besides, and besides a second for each kilobyte that came."""
    sockets: SocketCount = field(default_factory=lambda: SocketCount(0))
    """How many connections each address has that are not WebSockets."""
    is_proxy: Callable[[str], bool] = lambda address: False
    """Whether an address stands for many callers, and is not counted."""


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
