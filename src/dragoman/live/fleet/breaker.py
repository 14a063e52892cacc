"""A circuit breaker for nodes whose jobs mostly fail.

Heartbeats tell that a process lives, not that its work is any good. When too many of a node's
last jobs failed or timed out, the node is tried with one job at a time until a job succeeds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from math import ceil

from dragoman.errors import JobCancelled, Preempted
from dragoman.ids import AttemptId
from dragoman.live.protocol import JobResult

_NOT_THE_NODE = frozenset({JobCancelled.code, Preempted.code})
"""Ends that the scheduler asked for."""

_FIRST_REST_SECONDS = 1.0
_LONGEST_REST_SECONDS = 30.0

_REMEMBERED = 256
"""Attempts that timed out: the sweep may tell the node of one again."""


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

    __slots__ = ("_limit", "_recent", "_timed_out", "_trials", "tripped")

    def __init__(self, failures: float, window: int) -> None:
        """failures is the share of the last `window` jobs; 0 switches the breaker off."""
        # The small term keeps 0.6 of 10 at 6 whatever the last digit of the product is.
        self._limit = ceil(failures * window - 1e-9)
        self._recent: deque[bool] = deque(maxlen=window)
        self._timed_out: OrderedDict[AttemptId, None] = OrderedDict()
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
            f"{self._recent.count(True)} of its last {len(self._recent)} jobs failed or timed "
            "out; it gets one job at a time until one succeeds"
        )

    def ended(self, failure: bool) -> bool:
        """A job ended; True when the breaker tripped or was reset by it."""
        if self._limit <= 0:
            return False
        self._recent.append(failure)
        if self.tripped and not failure:
            self.reset()
            return True
        if self.tripped:
            self._trials += 1
        if not self.tripped and self._recent.count(True) >= self._limit:
            self.tripped = True
            return True
        return False

    def timed_out(self, attempt_id: AttemptId) -> bool:
        """An attempt was taken back from the node; the same as a failure, once."""
        if attempt_id in self._timed_out:
            return False
        self._timed_out[attempt_id] = None
        if len(self._timed_out) > _REMEMBERED:
            self._timed_out.popitem(last=False)
        return self.ended(failure=True)

    def reset(self) -> None:
        """The node is believed in again."""
        self.tripped = False
        self._trials = 0
        self._recent.clear()
