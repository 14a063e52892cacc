"""Brings a session's results back in order, each once, under one sequence of numbers.

Every utterance ends exactly once for each of its targets: with a result or announced missing. A
target's utterances come out in the order they were spoken; targets do not wait for each other.
Numbers are given when an end goes out, and stay with it until the client acknowledges them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from dragoman.live.sessions.lane import End, Lane
from dragoman.live.sessions.unacknowledged import DROPPED, Ready, Unacknowledged

__all__ = ["DROPPED", "GAP_TIMEOUT", "Delivery", "Ready"]

P = TypeVar("P")

GAP_TIMEOUT = "gap_timeout"
"""The reason given for an utterance that blocked others for too long."""

_REMEMBERED_MISSING = 256
"""How many announced ends are remembered, to tell a late result from a second one."""


class Delivery(Generic[P]):
    """The way back of one session; P is whatever the session needs to send an end (again)."""

    def __init__(
        self,
        targets: Sequence[str],
        *,
        reorder_window: int,
        gap_grace_seconds: float,
        keep_messages: int,
        keep_bytes: int,
        next_delivery_seq: int = 1,
        next_index: int = 0,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.next_delivery_seq = next_delivery_seq
        self.next_index = next_index
        self._targets = tuple(targets)
        self._reorder_window = reorder_window
        self._gap_grace_seconds = gap_grace_seconds
        self._lanes: dict[str, Lane[P]] = {}
        self._targets_left: dict[int, int] = {}
        self._held_bytes = 0
        self._sent: Unacknowledged[P] = Unacknowledged(keep_messages, keep_bytes)
        self._announced: OrderedDict[tuple[int, str], None] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """Utterances that are not yet delivered or announced for every target."""
        return len(self._targets_left)

    @property
    def buffered_bytes(self) -> int:
        """What is held back for its turn and kept for a resume."""
        return self._held_bytes + self._sent.size_bytes

    @property
    def deadline(self) -> float | None:
        """When ``due`` must be called; None while nothing can become due by time alone."""
        if not self._lanes:
            return None
        grace = self._gap_grace_seconds
        times = (lane.give_up_at(grace) for lane in self._lanes.values())
        return min((time for time in times if time is not None), default=None)

    def open(self, index: int, now: float, targets: Sequence[str] | None = None) -> None:
        """An utterance exists: the next after the last one, for the session's targets or its own.

        A session restored from its record opens those again that were open, and the ones between
        them without any target.
        """
        if index != self.next_index:
            raise ValueError(f"utterance {index} cannot be opened: {self.next_index} is next")
        self.next_index += 1
        own = self._targets if targets is None else targets
        for target in own:
            self._lanes.setdefault(target, Lane()).open(index)
        if own:
            self._targets_left[index] = len(own)

    def is_open(self, index: int, target: str) -> bool:
        """Whether the utterance has not ended for the target."""
        lane = self._lanes.get(target)
        return lane is not None and lane.expects(index)

    def result(
        self, index: int, target: str, payload: P, size_bytes: int, now: float
    ) -> list[Ready[P]]:
        """An utterance has its result; what goes out because of it, in order."""
        return self._end(index, target, End(payload, None, size_bytes, now))

    def missing(self, index: int, target: str, reason: str, now: float) -> list[Ready[P]]:
        """An utterance will have no result; what goes out because of it, in order."""
        return self._end(index, target, End(None, reason, 0, now))

    def abandoned(self, index: int, target: str, now: float) -> None:
        """No job works on the utterance from now on: it may block others only so long."""
        if lane := self._lanes.get(target):
            lane.set_abandoned(index, now)

    def taken_up(self, index: int, target: str) -> None:
        """A job works on the utterance again: it is waited for."""
        if lane := self._lanes.get(target):
            lane.set_abandoned(index, None)

    def due(self, now: float) -> list[Ready[P]]:
        """What goes out because the utterance before it was waited for long enough."""
        ready: list[Ready[P]] = []
        for target, lane in list(self._lanes.items()):
            while (at := lane.give_up_at(self._gap_grace_seconds)) is not None and at <= now:
                ready += self._give_up(target, lane, now)
        return ready

    def acknowledge(self, upto: int) -> list[Ready[P]]:
        """The client has everything up to this number; what need not be kept any longer."""
        return self._sent.acknowledge(upto)

    def unacknowledged(self, after: int) -> list[Ready[P]]:
        """What a client that resumes after this number gets again, under the same numbers."""
        return self._sent.after(after)

    def undelivered(self) -> Iterator[tuple[int, str, P | None]]:
        """What has no number yet: utterance, target, and the result where that is held back."""
        for target, lane in self._lanes.items():
            for index, payload in lane:
                yield index, target, payload

    def restore(self, ready: Ready[P], size_bytes: int) -> None:
        """Keep again what an earlier owner of the session sent; in the order of the numbers."""
        self._sent.keep(ready, size_bytes)

    def _end(self, index: int, target: str, end: End[P]) -> list[Ready[P]]:
        lane = self._lanes.get(target)
        if lane is None or not lane.expects(index):
            late = (index, target) in self._announced
            self.dropped["late" if late else "duplicate"] += 1
            return []
        self._record(index, target, lane, end)
        ready = self._release(target, lane)
        while lane.held > self._reorder_window:
            ready += self._give_up(target, lane, end.came_at)
        return ready

    def _give_up(self, target: str, lane: Lane[P], now: float) -> list[Ready[P]]:
        self._record(lane.head, target, lane, End(None, GAP_TIMEOUT, 0, now))
        return self._release(target, lane)

    def _record(self, index: int, target: str, lane: Lane[P], end: End[P]) -> None:
        lane.end(index, end)
        self._held_bytes += end.size_bytes
        if end.reason is not None:
            self._announced[index, target] = None
            if len(self._announced) > _REMEMBERED_MISSING:
                self._announced.popitem(last=False)

    def _release(self, target: str, lane: Lane[P]) -> list[Ready[P]]:
        """Number and send out what is no longer blocked."""
        released: list[Ready[P]] = []
        for index, end in lane.take_ready():
            ready = Ready(self.next_delivery_seq, index, target, end.payload, end.reason)
            self.next_delivery_seq += 1
            self._held_bytes -= end.size_bytes
            self._sent.keep(ready, end.size_bytes)
            self._count_down(index)
            released.append(ready)
        if not lane:
            del self._lanes[target]
        return released

    def _count_down(self, index: int) -> None:
        self._targets_left[index] -= 1
        if not self._targets_left[index]:
            del self._targets_left[index]
