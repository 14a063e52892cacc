"""The last hour minute by minute: jobs of each language pair, and of each node.

A job that ends is put into a list, which costs no call. The list is counted when it is long, with
each snapshot of the statistics, and when a reader asks.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from heapq import nlargest

import msgspec

from dragoman.clock import Clock
from dragoman.ids import NodeId

MINUTES = 60
PAIRS_KEPT = 2_500
NODES_KEPT = 20_000
"""Pairs and nodes that are remembered; those that did nothing for longest make room."""

COUNT_AT = 2_048
"""How many ended jobs wait to be counted: together, so that a job costs a part of a call."""

_MINUTE_MS = 60_000


class EndedJob(msgspec.Struct, eq=False, gc=False):
    """What is counted of a job."""

    pair: str
    node_id: NodeId | None
    """The node that brought it to its end; None: no node did."""
    failed: bool
    ended: float
    """In monotonic seconds."""
    took_seconds: float
    node_ms: int


class MinuteSeries(msgspec.Struct, frozen=True):
    """One thing in the minutes of an hour, the oldest first."""

    jobs: Sequence[int]
    """Jobs that ended."""
    failed: Sequence[int]
    """Of a pair: jobs that failed, those that were refused among them. Of a node: attempts."""
    refused: Sequence[int]
    """Of a pair: jobs that no node took. Nodes refuse none."""
    mean_ms: Sequence[float | None]
    """Of a pair: how long its jobs took. Of a node: how long it worked on each."""
    longest_ms: Sequence[float]


Counted = tuple[int, int, float, float]
"""Jobs, how many of them failed, their milliseconds together, and the longest."""

_NONE: Counted = (0, 0, 0.0, 0.0)


class Minutes:
    """A ring of the last sixty minutes of one pair or node."""

    __slots__ = ("_failed", "_jobs", "_longest_ms", "_refused", "_total_ms", "minute")

    def __init__(self, minute: int) -> None:
        self.minute = minute
        """The newest one that is counted."""
        self._jobs = array("I", bytes(4 * MINUTES))
        self._failed = array("I", bytes(4 * MINUTES))
        self._refused = array("I", bytes(4 * MINUTES))
        self._total_ms = array("d", bytes(8 * MINUTES))
        self._longest_ms = array("f", bytes(4 * MINUTES))

    def _place(self, minute: int) -> int:
        """Where a minute is counted; what stood there an hour ago is wiped."""
        for gone in range(max(self.minute + 1, minute - MINUTES + 1), minute + 1):
            place = gone % MINUTES
            self._jobs[place] = self._failed[place] = self._refused[place] = 0
            self._total_ms[place] = self._longest_ms[place] = 0.0
        self.minute = max(self.minute, minute)
        return minute % MINUTES

    def add(self, minute: int, counted: Counted) -> None:
        """Jobs that ended within a minute."""
        place = self._place(minute)
        jobs, failed, total_ms, longest_ms = counted
        self._jobs[place] += jobs
        self._failed[place] += failed
        self._total_ms[place] += total_ms
        self._longest_ms[place] = max(self._longest_ms[place], longest_ms)

    def failure(self, minute: int) -> None:
        self._failed[self._place(minute)] += 1

    def refusal(self, minute: int) -> None:
        self._refused[self._place(minute)] += 1

    def series(self, last: int) -> MinuteSeries:
        """The sixty minutes up to the last."""
        self._place(last)
        places = [minute % MINUTES for minute in range(last - MINUTES + 1, last + 1)]
        jobs = [self._jobs[place] for place in places]
        return MinuteSeries(
            jobs=jobs,
            failed=[self._failed[place] for place in places],
            refused=[self._refused[place] for place in places],
            mean_ms=[
                round(self._total_ms[place] / count, 3) if count else None
                for place, count in zip(places, jobs, strict=True)
            ],
            longest_ms=[round(self._longest_ms[place], 3) for place in places],
        )

    def activity(self, last: int) -> int:
        """Jobs, failures and refusals of the hour."""
        self._place(last)
        return sum(self._jobs) + sum(self._failed) + sum(self._refused)


class JobHistory:
    """Sixty minutes of every pair and every node that was busy lately."""

    def __init__(
        self, clock: Clock, *, pairs_kept: int = PAIRS_KEPT, nodes_kept: int = NODES_KEPT
    ) -> None:
        self._clock = clock
        self._pairs: OrderedDict[str, Minutes] = OrderedDict()
        self._nodes: OrderedDict[str, Minutes] = OrderedDict()
        self._pairs_kept, self._nodes_kept = pairs_kept, nodes_kept
        self._total = Minutes(self.minute_of(clock.monotonic()))
        self.ended: list[EndedJob] = []
        """Jobs that are not counted yet; `count` is due at `COUNT_AT` of them."""

    def minute_of(self, at: float) -> int:
        """Which minute since the epoch a time was in that the monotonic clock showed."""
        now_ms = self._clock.now_ms() - (self._clock.monotonic() - at) * 1000
        return int(now_ms // _MINUTE_MS)

    def count(self) -> None:
        """Count the jobs that have ended."""
        ended, self.ended = self.ended, []
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        pairs: dict[tuple[int, str], Counted] = {}
        nodes: dict[tuple[int, str], Counted] = {}
        # Added up without a call for each job: every job of the server passes.
        for job in ended:
            minute = int((now_ms - (now - job.ended) * 1000) // _MINUTE_MS)
            of_pair = (minute, job.pair)
            jobs, failed, total_ms, longest_ms = pairs.get(of_pair, _NONE)
            took_ms = job.took_seconds * 1000
            longest_ms = took_ms if took_ms > longest_ms else longest_ms
            pairs[of_pair] = (jobs + 1, failed + job.failed, total_ms + took_ms, longest_ms)
            if job.node_id is not None:
                of_node = (minute, job.node_id)
                jobs, failed, total_ms, longest_ms = nodes.get(of_node, _NONE)
                took_ms = job.node_ms
                longest_ms = took_ms if took_ms > longest_ms else longest_ms
                nodes[of_node] = (jobs + 1, failed + job.failed, total_ms + took_ms, longest_ms)
        for (minute, name), counted in pairs.items():
            self._of_pair(name, minute).add(minute, counted)
            self._total.add(minute, counted)
        for (minute, name), counted in nodes.items():
            self._of_node(name, minute).add(minute, counted)

    def attempt_failed(self, node_id: NodeId, at: float) -> None:
        """A node failed an attempt of a job that went on without it."""
        minute = self.minute_of(at)
        self._of_node(node_id, minute).failure(minute)

    def refused(self, pair: str, at: float) -> None:
        """A caller was told that no node takes its job; the job ends as failed, too."""
        minute = self.minute_of(at)
        self._of_pair(pair, minute).refusal(minute)
        self._total.refusal(minute)

    # --- readers --------------------------------------------------------------------------------

    def last_minute(self) -> int:
        """The minute that goes on; what is asked for ends with it."""
        return self.minute_of(self._clock.monotonic())

    def total(self, last: int) -> MinuteSeries:
        self.count()
        return self._total.series(last)

    def pairs(self, last: int, most: int) -> list[tuple[str, MinuteSeries]]:
        """The busiest pairs of the hour."""
        self.count()
        return _busiest(self._pairs.items(), last, most)

    def nodes(self, last: int, most: int) -> list[tuple[str, MinuteSeries]]:
        """The busiest nodes of the hour."""
        self.count()
        return _busiest(self._nodes.items(), last, most)

    def pair(self, name: str, last: int) -> MinuteSeries | None:
        self.count()
        found = self._pairs.get(name)
        return found.series(last) if found is not None else None

    def node(self, name: str, last: int) -> MinuteSeries | None:
        self.count()
        found = self._nodes.get(name)
        return found.series(last) if found is not None else None

    # --- bounded --------------------------------------------------------------------------------

    def _of_pair(self, name: str, minute: int) -> Minutes:
        return _kept(self._pairs, name, minute, self._pairs_kept)

    def _of_node(self, name: str, minute: int) -> Minutes:
        return _kept(self._nodes, name, minute, self._nodes_kept)


def _kept(known: OrderedDict[str, Minutes], name: str, minute: int, most: int) -> Minutes:
    found = known.get(name)
    if found is None:
        if len(known) >= most:
            known.popitem(last=False)
        found = known[name] = Minutes(minute)
    known.move_to_end(name)
    return found


def _busiest(
    items: Iterable[tuple[str, Minutes]], last: int, most: int
) -> list[tuple[str, MinuteSeries]]:
    counted = ((minutes.activity(last), name, minutes) for name, minutes in items)
    found = nlargest(most, (each for each in counted if each[0]), key=lambda each: each[:2])
    return [(name, minutes.series(last)) for _, name, minutes in found]
