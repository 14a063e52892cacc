"""Reports that a model is not available, and how many there were of which kind."""

from __future__ import annotations

import msgspec

from dragoman.ids import NodeId
from dragoman.observability import KeyCount, Metrics, TopK


class Report(msgspec.Struct, frozen=True):
    """A node said that it lacks a service; the reason is in the form in which it is counted."""

    node_id: NodeId
    service_id: str
    version: str | None
    reason: str


class FeedbackView(msgspec.Struct, frozen=True):
    """Reports since the start; each list names the most frequent first."""

    received: int
    rate_limited: int
    marked: int
    by_service_top: list[KeyCount]
    by_reason_top: list[KeyCount]
    rate_limited_by_node_top: list[KeyCount]
    marked_by_node_top: list[KeyCount]


class ReportCounts:
    """Counts reports twice: for Prometheus, and for the lists of the JSON metrics."""

    def __init__(self, metrics: Metrics, top_k: int) -> None:
        self._metrics = metrics
        self._received = 0
        self._rate_limited = 0
        self._marked = 0
        self._by_service = TopK(top_k)
        self._by_reason = TopK(top_k)
        self._rate_limited_by_node = TopK(top_k)
        self._marked_by_node = TopK(top_k)

    def received(self) -> None:
        """One arrived, whatever becomes of it."""
        self._received += 1
        self._metrics.model_na_received.inc()

    def overflowed(self) -> None:
        """One was dropped because too many wait."""
        self._metrics.model_na_overflow.inc()

    def rate_limited(self, report: Report) -> None:
        """One was over its node's limit."""
        self._rate_limited += 1
        self._rate_limited_by_node.add(report.node_id)
        self._metrics.model_na_rate_limited.inc()
        self._metrics.model_na_rate_limited_by_node.labels(report.node_id).inc()

    def accepted(self, report: Report) -> None:
        """One is within its node's limit."""
        self._by_service.add(report.service_id)
        self._by_reason.add(report.reason)
        self._metrics.model_na_by_service.labels(report.service_id).inc()
        self._metrics.model_na_by_reason.labels(report.reason).inc()

    def marked(self, report: Report) -> None:
        """One marked its service, or marked it anew."""
        self._marked += 1
        self._marked_by_node.add(report.node_id)
        self._metrics.model_na_marked.inc()
        self._metrics.model_na_marked_by_node.labels(report.node_id).inc()

    def view(self) -> FeedbackView:
        return FeedbackView(
            received=self._received,
            rate_limited=self._rate_limited,
            marked=self._marked,
            by_service_top=self._by_service.top(),
            by_reason_top=self._by_reason.top(),
            rate_limited_by_node_top=self._rate_limited_by_node.top(),
            marked_by_node_top=self._marked_by_node.top(),
        )
