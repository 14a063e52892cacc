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
