"""How fast a client may send, so that the scheduler need not turn it away."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock

_PER_SECOND = 200.0
"""Well below what a scheduler allows by default."""
_BURST = 100.0
_SLOWEST_PER_SECOND = 5.0
_SLOWED_SHARE = 0.25


class Pace:
    """Lets messages through at a bounded rate, after a small burst."""

    def __init__(self, clock: Clock) -> None:
        self.slowed = False
        """The scheduler asked for less."""
        self._clock = clock
        self._per_second = _PER_SECOND
        self._tokens = _BURST
        self._filled_at = clock.monotonic()

    def takes_turn(self) -> bool:
        """Whether one more may be sent now, which is then counted."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def turn(self) -> None:
        """Wait until one more may be sent."""
        per_second = self._fill()
        self._tokens -= 1.0
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / per_second)

    def _fill(self) -> float:
        """Count what the time since the last message allows; answers how many a second may go."""
        per_second = self._per_second * (_SLOWED_SHARE if self.slowed else 1.0)
        now = self._clock.monotonic()
        self._tokens = min(_BURST, self._tokens + (now - self._filled_at) * per_second)
        self._filled_at = now
        return per_second

    def was_too_fast(self) -> None:
        """The scheduler closed the connection over it: be slower from now on."""
        self._per_second = max(_SLOWEST_PER_SECOND, self._per_second / 2)
        self._tokens = 0.0
