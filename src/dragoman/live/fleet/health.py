"""How a node is doing: a table of states, and the counting that moves between them."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import msgspec

from dragoman.live.protocol import NodeHealth


class HealthEvent(StrEnum):
    """What moves a node's health."""

    REGISTERED = "registered"
    PROVEN = "proven"
    """ready_after good heartbeats in a row."""
    FAILING = "failing"
    """Too many bad heartbeats, in a row or in the window."""
    DRAIN = "drain"
    RESUME = "resume"
    LOST = "lost"


_S, _E = NodeHealth, HealthEvent

MOVES: dict[tuple[NodeHealth, HealthEvent], NodeHealth] = {
    (_S.OFFLINE, _E.REGISTERED): _S.REGISTERING,
    (_S.REGISTERING, _E.PROVEN): _S.READY,
    (_S.DEGRADED, _E.PROVEN): _S.READY,
    (_S.READY, _E.FAILING): _S.DEGRADED,
    (_S.REGISTERING, _E.DRAIN): _S.DRAINING,
    (_S.READY, _E.DRAIN): _S.DRAINING,
    (_S.DEGRADED, _E.DRAIN): _S.DRAINING,
    (_S.DRAINING, _E.RESUME): _S.REGISTERING,
    (_S.REGISTERING, _E.LOST): _S.OFFLINE,
    (_S.READY, _E.LOST): _S.OFFLINE,
    (_S.DEGRADED, _E.LOST): _S.OFFLINE,
    (_S.DRAINING, _E.LOST): _S.OFFLINE,
}
"""Every move there is; an event without an entry changes nothing."""


class HealthRules(msgspec.Struct, frozen=True):
    """When heartbeats count; from the settings."""

    interval_seconds: float
    timeout_seconds: float
    reconnect_grace_seconds: float
    ready_after: int
    window: int
    window_failures: int
    consecutive_failures: int
    resource_threshold_percent: float
    forget_offline_seconds: float

    @property
    def late_after_seconds(self) -> float:
        """A heartbeat that took longer than this to come is a bad one."""
        return 1.5 * self.interval_seconds


class Health:
    """One node's health, moved by its heartbeats."""

    __slots__ = ("_bad_in_a_row", "_good_in_a_row", "_recent", "_rules", "state")

    def __init__(self, rules: HealthRules) -> None:
        self._rules = rules
        self.state = NodeHealth.OFFLINE
        self._recent: deque[bool] = deque(maxlen=rules.window)
        self._good_in_a_row = 0
        self._bad_in_a_row = 0

    def happened(self, event: HealthEvent) -> bool:
        """Make the move the table has for the event; False when there is none."""
        after = MOVES.get((self.state, event))
        if after is None:
            return False
        self.state = after
        if event in (HealthEvent.REGISTERED, HealthEvent.RESUME):
            self._start_over()
        return True

    def beat(self, good: bool) -> bool:
        """Count a heartbeat; True when the state changed."""
        self._recent.append(good)
        self._good_in_a_row = self._good_in_a_row + 1 if good else 0
        self._bad_in_a_row = 0 if good else self._bad_in_a_row + 1
        if good and self._good_in_a_row >= self._rules.ready_after:
            return self.happened(HealthEvent.PROVEN)
        if not good and self._failing():
            return self.happened(HealthEvent.FAILING)
        return False

    def _failing(self) -> bool:
        return (
            self._bad_in_a_row >= self._rules.consecutive_failures
            or self._recent.count(False) >= self._rules.window_failures
        )

    def _start_over(self) -> None:
        self._recent.clear()
        self._good_in_a_row = 0
        self._bad_in_a_row = 0
