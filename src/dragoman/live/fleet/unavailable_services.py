"""Marks: services of nodes that are left out for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from math import inf
from typing import Generic, Protocol, TypeVar

import msgspec
from cachetools import TTLCache

from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.fleet.reports import FeedbackView, Report, ReportCounts
from dragoman.live.protocol import ModelNotAvailable
from dragoman.observability import Metrics, get_logger, normal_reason, yielding

MARKS_PER_NODE = 1_000
"""More services than any node runs; past it the oldest mark of the node goes."""


_ServiceVersion = tuple[str, str | None]


class Mark(msgspec.Struct, frozen=True):
    """A service that a node said it does not have, and until when it is believed."""

    service_id: str
    reason: str
    ends_at: float
    """On the monotonic clock, in seconds."""
    expires_at_ms: int
    """The same moment, for people."""
    version: str | None = None
    """The one version that is meant; None: all of the service."""


class Marks:
    """Which services of which nodes are marked. Every mark lasts equally long."""

    def __init__(self, ttl_seconds: float, clock: Clock) -> None:
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._by_node: dict[NodeId, dict[_ServiceVersion, Mark]] = {}
        self._by_age: OrderedDict[tuple[NodeId, _ServiceVersion], Mark] = OrderedDict()
        """The mark that ends first comes first."""

    def add(
        self, node_id: NodeId, service_id: str, reason: str, version: str | None = None
    ) -> None:
        """Mark a service; one that is marked already stays so for the whole time again."""
        service = service_id, version
        marks = self._by_node.setdefault(node_id, {})
        marks.pop(service, None)
        mark = marks[service] = Mark(
            service_id,
            reason,
            ends_at=self._clock.monotonic() + self._ttl_seconds,
            expires_at_ms=self._clock.now_ms() + int(self._ttl_seconds * 1000),
            version=version,
        )
        self._by_age[node_id, service] = mark
        self._by_age.move_to_end((node_id, service))
        if len(marks) > MARKS_PER_NODE:
            oldest = next(iter(marks))
            del marks[oldest], self._by_age[node_id, oldest]

    def of(self, node_id: NodeId) -> tuple[Mark, ...]:
        """The node's marks, oldest first."""
        return tuple(self._by_node.get(node_id, {}).values())

    @property
    def next_end(self) -> float | None:
        """When the next mark ends, on the monotonic clock."""
        return next((mark.ends_at for mark in self._by_age.values()), None)

    def expire(self, at_most: int | None = None) -> set[NodeId]:
        """Drop marks whose time is over, the oldest first; answers the nodes that lost one."""
        now = self._clock.monotonic()
        changed: set[NodeId] = set()
        dropped = 0
        while (end := self.next_end) is not None and end <= now and dropped != at_most:
            dropped += 1
            (node_id, service), _ = self._by_age.popitem(last=False)
            marks = self._by_node[node_id]
            del marks[service]
            if not marks:
                del self._by_node[node_id]
            changed.add(node_id)
        return changed

    def __len__(self) -> int:
        return len(self._by_age)


KeyT = TypeVar("KeyT", bound=Hashable)


class NodeLimit:
    """Lets each node do something so many times within any stretch of `window_seconds`.

    What is refused does not count, so a node that never stops is still heard now and then. A node
    that was let through nothing within the window is not remembered.
    """

    def __init__(self, window_seconds: float, at_most: int, clock: Clock) -> None:
        self._window_seconds = window_seconds
        self._at_most = at_most
        self._clock = clock
        self._times: OrderedDict[NodeId, deque[float]] = OrderedDict()
        """When each node was let through; the node that was so longest ago comes first."""

    def allows(self, node_id: NodeId) -> bool:
        """Whether the node may do it once more, which is then counted."""
        now = self._clock.monotonic()
        since = now - self._window_seconds
        self._forget(since)
        times = self._times.setdefault(node_id, deque())
        while times and times[0] <= since:
            times.popleft()
        if len(times) >= self._at_most:
            return False
        times.append(now)
        self._times.move_to_end(node_id)
        return True

    def _forget(self, since: float) -> None:
        while self._times:
            times = next(iter(self._times.values()))
            if times[-1] > since:
                return
            self._times.popitem(last=False)

    def __len__(self) -> int:
        """How many nodes are remembered."""
        return len(self._times)


class Debounce(Generic[KeyT]):
    """Lets the first of many calls about one key through, then none for `window_seconds`."""

    def __init__(self, window_seconds: float, clock: Clock) -> None:
        self._recent: TTLCache[KeyT, None] = TTLCache(inf, window_seconds, clock.monotonic)

    def first(self, key: KeyT) -> bool:
        """Whether nothing was let through for the key within the window."""
        if key in self._recent:
            return False
        self._recent[key] = None
        return True

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._recent)


log = get_logger("dragoman.fleet")

_ENDS_AT_ONCE = 20
"""Marks that end in one turn of the event loop: a whole fleet may have been marked together."""

_REASON_READ_CHARACTERS = 256
"""A reason is cut before it is normalised: a node may send one as long as a frame."""


class FeedbackRules(msgspec.Struct, frozen=True, kw_only=True):
    """How reports are limited, and how long they are believed."""

    ttl_seconds: float
    debounce_seconds: float
    node_window_seconds: float
    node_max: int
    queue_max: int
    top_k: int


class MarkPort(Protocol):
    """Shows marks to those who choose nodes."""

    def set_marks(self, node_id: NodeId, marks: tuple[Mark, ...]) -> bool:
        """False when the node is unknown."""
        ...

    def has_version(self, node_id: NodeId, service_id: str, version: str) -> bool:
        """Whether the node lists this version of a service."""
        ...


class Feedback:
    """Takes reports, marks the services they name, and ends marks in time."""

    def __init__(
        self,
        rules: FeedbackRules,
        *,
        nodes: MarkPort,
        follow_up: Callable[[str, str | None], None],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._follow_up = follow_up
        self._clock = clock
        self._queue: asyncio.Queue[Report] = asyncio.Queue(rules.queue_max)
        self._limit = NodeLimit(rules.node_window_seconds, rules.node_max, clock)
        self._debounce: Debounce[tuple[str, str | None]] = Debounce(rules.debounce_seconds, clock)
        self._marks = Marks(rules.ttl_seconds, clock)
        self._counts = ReportCounts(metrics, rules.top_k)
        self._alarm: asyncio.TimerHandle | None = None
        """Set for the end of the next mark, while there is one."""

    def report(self, node_id: NodeId, message: ModelNotAvailable) -> None:
        """A node lacks a service. It is handled later, so the caller does not wait."""
        self._counts.received()
        reason = normal_reason(message.reason[:_REASON_READ_CHARACTERS])
        try:
            self._queue.put_nowait(Report(node_id, message.service_id, message.version, reason))
        except asyncio.QueueFull:
            self._counts.overflowed()

    def view(self) -> FeedbackView:
        """What was received, and what was done about it, since the start."""
        return self._counts.view()

    async def run(self) -> None:
        """Handle reports as they come, and give way to others while there are many."""
        try:
            while True:
                self._handle(await self._queue.get())
                async for report in yielding(self._waiting(), self._clock):
                    self._handle(report)
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _waiting(self) -> Iterator[Report]:
        while not self._queue.empty():
            yield self._queue.get_nowait()

    def _handle(self, report: Report) -> None:
        if not self._limit.allows(report.node_id):
            self._counts.rate_limited(report)
            return
        self._counts.accepted(report)
        try:
            self._mark(report)
            if self._debounce.first((report.service_id, report.version)):
                log.warning(
                    "model_not_available",
                    service_id=report.service_id,
                    version=report.version,
                    node_id=report.node_id,
                    reason=report.reason,
                )
                self._follow_up(report.service_id, report.version)
        except Exception:
            # One report must not cost the ones after it.
            log.exception("report_failed", node_id=report.node_id)

    def _mark(self, report: Report) -> None:
        node_id, service_id, version = report.node_id, report.service_id, report.version
        if version is not None and not self._nodes.has_version(node_id, service_id, version):
            version = None  # All that the node has of the service is left alone.
        self._marks.add(node_id, service_id, report.reason, version)
        if self._nodes.set_marks(report.node_id, self._marks.of(report.node_id)):
            self._counts.marked(report)
        if self._alarm is None:
            self._set_alarm()

    def _set_alarm(self) -> None:
        end = self._marks.next_end
        if end is None:
            self._alarm = None
            return
        seconds = max(0.0, end - self._clock.monotonic())
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        for node_id in self._marks.expire(at_most=_ENDS_AT_ONCE):
            self._nodes.set_marks(node_id, self._marks.of(node_id))
        # Those that are left, if any, get their turn after all others.
        self._set_alarm()
