"""A node's health: a table of states, and the counters that move between them."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

import msgspec

from dragoman.live.fleet.breaker import Breaker
from dragoman.live.fleet.resources import Thresholds
from dragoman.live.protocol import NodeHealth


class HealthEvent(StrEnum):
    """What moves a node's health."""

    REGISTERED = "registered"
    PROVEN = "proven"
    """ready_after good heartbeats in a row."""
    FAILING = "failing"
    """Too many bad heartbeats, in a row or in the window."""
    TRIPPED = "tripped"
    """Too many of its last jobs failed or timed out."""
    RECOVERED = "recovered"
    """A job succeeded, and the heartbeats are good."""
    DRAIN = "drain"
    RESUME = "resume"
    LOST = "lost"


_S, _E = NodeHealth, HealthEvent

MOVES: dict[tuple[NodeHealth, HealthEvent], NodeHealth] = {
    (_S.OFFLINE, _E.REGISTERED): _S.REGISTERING,
    (_S.REGISTERING, _E.PROVEN): _S.READY,
    (_S.DEGRADED, _E.PROVEN): _S.READY,
    (_S.READY, _E.FAILING): _S.DEGRADED,
    (_S.READY, _E.TRIPPED): _S.DEGRADED,
    (_S.DEGRADED, _E.RECOVERED): _S.READY,
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
    thresholds: Thresholds
    forget_offline_seconds: float
    breaker_failures: float = 0.0
    breaker_window: int = 10
    ack_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def late_after_seconds(self) -> float:
        """A heartbeat that took longer than this to come is a bad one."""
        return 1.5 * self.interval_seconds


class Health:
    """One node's health, moved by its heartbeats and by how its jobs end."""

    __slots__ = (
        "_bad_because",
        "_bad_in_a_row",
        "_beats_fail",
        "_good_in_a_row",
        "_recent",
        "_rules",
        "breaker",
        "state",
    )

    def __init__(self, rules: HealthRules) -> None:
        self._rules = rules
        self.state = NodeHealth.OFFLINE
        self.breaker = Breaker(
            rules.breaker_failures, rules.breaker_window, rules.ack_seconds, rules.run_seconds
        )
        self._recent: deque[bool] = deque(maxlen=rules.window)
        self._good_in_a_row = 0
        self._bad_in_a_row = 0
        self._bad_because = ""
        self._beats_fail = False
        """Bad heartbeats degraded the node, and good ones have not made up for it."""

    @property
    def on_trial(self) -> bool:
        """Whether the node is degraded for its jobs alone: it gets one of them at a time."""
        return self.state is NodeHealth.DEGRADED and self.breaker.tripped and not self._beats_fail

    @property
    def takes_jobs(self) -> bool:
        return self.state is NodeHealth.READY or self.on_trial

    @property
    def reason(self) -> str | None:
        """Why the node is degraded, in words for its owner."""
        if self.state is not NodeHealth.DEGRADED:
            return None
        if self._beats_fail:
            return (
                f"too many bad heartbeats, the last because {self._bad_because}; it gets no jobs "
                "until its heartbeats are good again"
            )
        return self.breaker.reason if self.breaker.tripped else None

    def happened(self, event: HealthEvent) -> bool:
        """Make the table's move for the event; False when there is none."""
        after = MOVES.get((self.state, event))
        if after is None:
            return False
        self.state = after
        if event in (HealthEvent.REGISTERED, HealthEvent.RESUME):
            self._start_over()
        return True

    def beat(self, good: bool, because: str = "it made no sense") -> bool:
        """Count a heartbeat; True when the state, or whether it takes jobs, changed."""
        before = (self.state, self.takes_jobs)
        self._recent.append(good)
        self._good_in_a_row = self._good_in_a_row + 1 if good else 0
        self._bad_in_a_row = 0 if good else self._bad_in_a_row + 1
        if good and self._good_in_a_row >= self._rules.ready_after:
            self._beats_fail = False
            if not self.breaker.tripped:
                self.happened(HealthEvent.PROVEN)
        elif not good and self._failing():
            self._beats_fail = True
            self.happened(HealthEvent.FAILING)
        if not good:
            self._bad_because = because
        return before != (self.state, self.takes_jobs)

    def job_ended(self, failure: bool) -> bool:
        """Count how a job of the node ended; True when the state changed."""
        return self.breaker.ended(failure) and self._follow_breaker()

    def _follow_breaker(self) -> bool:
        if self.breaker.tripped:
            if self.happened(HealthEvent.TRIPPED) or self.state is NodeHealth.DEGRADED:
                return True
            # Draining or registering: what it did before does not count against what comes.
            self.breaker.reset()
            return False
        return not self._beats_fail and self.happened(HealthEvent.RECOVERED)

    def _failing(self) -> bool:
        return (
            self._bad_in_a_row >= self._rules.consecutive_failures
            or self._recent.count(False) >= self._rules.window_failures
        )

    def _start_over(self) -> None:
        self._recent.clear()
        self._good_in_a_row = 0
        self._bad_in_a_row = 0
        self._beats_fail = False
        self.breaker.reset()
