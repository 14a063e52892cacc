"""Telling a client to slow down before it has to be stopped."""

from __future__ import annotations

from dragoman.live.protocol import Backpressure, BackpressureAction


class Pressure:
    """slow_down at half of what may be in flight, pause at the limit, resume below half."""

    def __init__(self, max_inflight: int) -> None:
        self._max = max_inflight
        self._last: BackpressureAction | None = None

    def now(self, in_flight: int) -> Backpressure | None:
        """What to tell the client, when that has changed."""
        if in_flight >= self._max:
            action: BackpressureAction | None = BackpressureAction.PAUSE
        elif in_flight * 2 >= self._max and self._last is not BackpressureAction.PAUSE:
            action = BackpressureAction.SLOW_DOWN
        elif in_flight * 2 < self._max:
            action = BackpressureAction.RESUME if self._last is not None else None
        else:
            action = self._last
        if action is self._last or action is None:
            return None
        self._last = None if action is BackpressureAction.RESUME else action
        return Backpressure(action)
