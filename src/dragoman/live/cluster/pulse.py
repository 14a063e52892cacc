"""How an instance finds out that it stood still."""

from __future__ import annotations


class Pulse:
    """Tells an instance that it was paused for longer than others wait for it.

    A stopped process, a frozen machine or a blocked event loop does not feel the time pass. Feel
    the pulse before handling anything: when it says paused, others may have taken over what this
    instance believes to own, and its sockets must go first. That Redis was away is no pause.
    """

    def __init__(self, ttl_seconds: float, now: float) -> None:
        """Times are readings of a monotonic clock; the pulse must be felt well within the ttl."""
        self._ttl_seconds = ttl_seconds
        self._felt_at = now
        self._paused = False

    def paused(self, now: float) -> bool:
        """Feel the pulse: True once there was a pause, until it has been dealt with."""
        if now - self._felt_at >= self._ttl_seconds:
            self._paused = True
        self._felt_at = now
        return self._paused

    def dealt_with(self) -> None:
        """The sockets are gone; go on."""
        self._paused = False
