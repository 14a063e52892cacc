"""What dispatch has done so far, in numbers that cost nothing to read."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from math import inf
from typing import Protocol

from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.protocol import ExclusionReason
from dragoman.live.snapshot import CellView
from dragoman.observability import Metrics

RATE_WINDOW_SECONDS = 10
"""Over how long the rate of requests is taken."""

EXAMPLES = 5
"""How many nodes are named for a reason."""

_EXAMPLES_EVERY_SECONDS = 1.0


class Decision(Protocol):
    """What is told of a choice of nodes."""

    def left_out(self) -> Iterator[tuple[CellView, ExclusionReason, int]]:
        """Cell by cell, the bits of the nodes left out for each reason."""
        ...


class Rate:
    """How often something happens a second, over the last whole seconds."""

    def __init__(self, window_seconds: int = RATE_WINDOW_SECONDS) -> None:
        self._window_seconds = window_seconds
        self._seconds: deque[list[int]] = deque(maxlen=window_seconds + 1)
        """A second, and how often it happened within it; the newest last."""
        self.current = [0, 0]
        self.second_ends = -inf
        """Until then `current[1]` may be counted up without a call."""

    def add(self, now: float) -> None:
        if now >= self.second_ends:
            self.begin_second(now)
        self.current[1] += 1

    def begin_second(self, now: float) -> None:
        """A new second has begun: it is counted by itself."""
        second = int(now)
        self.current = [second, 0]
        self._seconds.append(self.current)
        self.second_ends = second + 1.0

    def per_second(self, now: float) -> float:
        """The second that is still going on counts, too, so that a first burst shows at once."""
        after = int(now) - self._window_seconds
        counted = sum(count for second, count in self._seconds if second > after)
        return counted / self._window_seconds


class Tally:
    """Jobs made and ended, requests a second, and nodes left out with the reason."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self.rate = Rate()
        self._examples_due = 0.0
        self.created = 0
        self.succeeded = 0
        self.failed = 0
        self.times_left_out: Counter[str] = Counter()
        """How often a node was left out, by reason."""
        self.examples: dict[str, tuple[NodeId, ...]] = {}
        """Some nodes that were left out lately, by reason."""

    def asked(self) -> None:
        """A caller asked for a job."""
        self.asked_at(self._clock.monotonic())

    def asked_at(self, now: float) -> None:
        """The same, by a look at the clock that was taken already."""
        self.rate.add(now)

    @property
    def asked_per_second(self) -> float:
        return self.rate.per_second(self._clock.monotonic())

    def left_out(self, decision: Decision) -> None:
        """Count the nodes that a decision left out."""
        reasons = set()
        for _, reason, mask in decision.left_out():
            reasons.add(reason)
            self.count_left_out(reason, mask.bit_count())
        if reasons:
            self.show_examples(decision, reasons)

    def count_left_out(self, reason: str, count: int) -> None:
        self.times_left_out[reason] += count
        self._metrics.dispatch_exclude.labels(reason).inc(count)

    def show_examples(self, decision: Decision, reasons: Collection[str]) -> None:
        """Name some of the nodes a decision left out; once in a while, or for a new reason."""
        now = self._clock.monotonic()
        if now < self._examples_due and self.examples.keys() >= set(reasons):
            return
        self._examples_due = now + _EXAMPLES_EVERY_SECONDS
        found: dict[ExclusionReason, list[NodeId]] = {}
        for view, reason, mask in decision.left_out():
            named = found.setdefault(reason, [])
            if len(named) < EXAMPLES:
                named += view.node_ids(mask)
        self.examples |= {reason: tuple(named[:EXAMPLES]) for reason, named in found.items()}
