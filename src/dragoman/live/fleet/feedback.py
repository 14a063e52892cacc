"""How the scheduler handles reports that a model is not available.

A node's heartbeat tells what it means to run; such a report tells what it could not run. The
receiver only queues it. A background worker marks the service on the node, so that the next
decision leaves it out, and follows up what concerns every node once in a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.ids import NodeId
from dragoman.live.fleet.marks import Mark, Marks
from dragoman.live.fleet.pacing import Debounce, NodeLimit
from dragoman.live.fleet.reports import FeedbackView, Report, ReportCounts
from dragoman.live.protocol import ModelNotAvailable
from dragoman.observability import Metrics, get_logger, normal_reason, yielding

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
        self._marks.add(report.node_id, report.service_id, report.reason)
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
