"""A node's health: a table of states, and the counters that move between them."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import StrEnum
from math import ceil

import msgspec

from dragoman.errors import JobCancelled, Preempted
from dragoman.ids import AttemptId
from dragoman.live.protocol import JobResult, NodeHealth, Resource, ResourceUsage

_NOT_THE_NODE = frozenset({JobCancelled.code, Preempted.code})
"""Ends that the scheduler asked for."""

_FIRST_REST_SECONDS = 1.0
_LONGEST_REST_SECONDS = 30.0

_REMEMBERED = 4096
"""Attempts that a node has been told of and has not answered; of older ones nothing is known."""

_FAIR_SHARE = 0.5
"""A node that had less than this part of its time cannot be blamed for being late."""


_Out = tuple[float, bool]
"""Since when the node has an attempt, and whether it has acknowledged it."""


def failed(result: JobResult) -> bool | None:
    """Whether a result counts against its node; None when it says nothing about the node."""
    if result.success:
        return False
    error = result.error
    if error is not None and (error.code in _NOT_THE_NODE or not error.retryable):
        return None
    return True


class Breaker:
    """Counts how the last jobs of one node ended."""

    __slots__ = ("_ack_seconds", "_limit", "_out", "_run_seconds", "_trials", "recent", "tripped")

    def __init__(
        self, failures: float, window: int, ack_seconds: float = 0.0, run_seconds: float = 0.0
    ) -> None:
        """failures is the share of the last `window` jobs; 0 switches the breaker off.

        ack_seconds and run_seconds are the time that a node has for an attempt.
        """
        self._ack_seconds = ack_seconds
        self._run_seconds = run_seconds
        # The small term keeps 0.6 of 10 at 6 whatever the last digit of the product is.
        self._limit = ceil(failures * window - 1e-9)
        self.recent: deque[bool] = deque(maxlen=window)
        """Whether each of the last jobs failed."""
        self._out: OrderedDict[AttemptId, _Out] = OrderedDict()
        self._trials = 0
        self.tripped = False

    @property
    def rest_seconds(self) -> float:
        """How long other nodes are asked first after a failure; longer after each."""
        return min(_LONGEST_REST_SECONDS, _FIRST_REST_SECONDS * 2.0**self._trials)

    @property
    def reason(self) -> str:
        """Why the node is tried with one job at a time, in words for its owner."""
        return (
            f"{self.recent.count(True)} of its last {len(self.recent)} jobs failed or timed "
            "out; it gets one job at a time until one succeeds"
        )

    def ended(self, failure: bool) -> bool:
        """A job ended; True when the breaker tripped or was reset by it."""
        if self._limit <= 0:
            return False
        self.recent.append(failure)
        if self.tripped and not failure:
            self.reset()
            return True
        if self.tripped:
            self._trials += 1
        if not self.tripped and self.recent.count(True) >= self._limit:
            self.tripped = True
            return True
        return False

    def told(self, attempt_id: AttemptId, now: float) -> None:
        """The node was sent the attempt: from now on it can be late."""
        if self._limit <= 0:
            return
        self._out[attempt_id] = (now, False)
        if len(self._out) > _REMEMBERED:
            self._out.popitem(last=False)

    def acknowledged(self, attempt_id: AttemptId, now: float) -> None:
        """The node took the attempt, whether that could be stored or not."""
        out = self._out.get(attempt_id)
        if out is not None and not out[1]:
            self._out[attempt_id] = (now, True)

    def answered(self, attempt_id: AttemptId) -> None:
        """The node has given its result, whether that could be stored or not."""
        self._out.pop(attempt_id, None)

    def is_late(self, attempt_id: AttemptId, now: float) -> bool:
        """Whether an attempt that is taken back from the node was the node's to answer in time.

        It was not when the node had answered and the ledger could not be told, or when the node
        heard of it late or never. True once: the sweep may take an attempt back again.
        """
        out = self._out.pop(attempt_id, None)
        if out is None:
            return False
        since, acknowledged = out
        return now - since >= _FAIR_SHARE * (
            self._run_seconds if acknowledged else self._ack_seconds
        )

    def reset(self) -> None:
        """The node is believed in again."""
        self.tripped = False
        self._trials = 0
        self.recent.clear()


SAMPLES = 3
"""What is judged is the mean of so many heartbeats; of fewer nothing is said."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The percentage at which each resource leaves a node out; 0: never."""

    cpu: float = 0.0
    mem: float = 0.0
    gpu: float = 0.0
    gpu_mem: float = 0.0

    def of(self, resource: Resource) -> float:
        percent: float = getattr(self, resource.value)
        return percent


class ResourceMean(msgspec.Struct, frozen=True, array_like=True):
    """One resource over the last heartbeats."""

    resource: Resource
    mean_percent: float
    over: bool
    """At or over its threshold."""


class RecentUsage:
    """What the last heartbeats of a node said about its machine."""

    __slots__ = ("_samples", "_since_busy", "_started", "_thresholds", "over")

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._samples: deque[ResourceUsage] = deque(maxlen=SAMPLES)
        self._started = False
        self._since_busy = SAMPLES
        """Samples since one was at or over a threshold."""
        self.over = False
        """Whether the mean of any resource is at or over its threshold."""

    def restart(self) -> None:
        """The next sample is the first of its process, or may be."""
        self._started = False

    def add(self, usage: ResourceUsage) -> None:
        if not self._started:
            self._started = True
            return
        self._samples.append(usage)
        self._since_busy = 0 if self._is_busy(usage) else self._since_busy + 1
        # A mean is never over its threshold while no sample is: most heartbeats end here.
        self.over = self._since_busy < SAMPLES and any(mean.over for mean in self.means())

    def means(self) -> tuple[ResourceMean, ...]:
        """The resources that were reported, each with its mean and its verdict."""
        found = []
        for resource in Resource:
            percents = [
                percent
                for sample in self._samples
                if (percent := getattr(sample, f"{resource.value}_percent")) is not None
            ]
            if percents:
                mean = sum(percents) / len(percents)
                limit = self._thresholds.of(resource)
                over = 0 < limit <= mean and len(percents) == SAMPLES
                found.append(ResourceMean(resource, round(mean, 1), over))
        return tuple(found)

    def _is_busy(self, usage: ResourceUsage) -> bool:
        limits = self._thresholds
        return (
            0 < limits.cpu <= usage.cpu_percent
            or 0 < limits.mem <= usage.mem_percent
            or (usage.gpu_percent is not None and 0 < limits.gpu <= usage.gpu_percent)
            or (usage.gpu_mem_percent is not None and 0 < limits.gpu_mem <= usage.gpu_mem_percent)
        )


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


class HealthRecord:
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
