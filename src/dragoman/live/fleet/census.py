"""How many nodes there are of each kind, kept as they change and never counted over."""

from __future__ import annotations

from collections import Counter

import msgspec

from dragoman.live.protocol import NodeHealth, ServiceType
from dragoman.observability import Metrics


class Headcount(msgspec.Struct, frozen=True):
    """What one node adds to the census."""

    status: NodeHealth
    slots: int
    types: frozenset[ServiceType]
    """Kinds of work it can do now."""


class Census:
    """The fleet in numbers. Offline nodes are known, but bring neither slots nor services."""

    def __init__(self, metrics: Metrics) -> None:
        self._nodes_by_status = metrics.nodes
        self.total = 0
        self.slots = 0
        self.by_status: Counter[NodeHealth] = Counter()
        self.by_service_type: Counter[ServiceType] = Counter()

    def change(self, before: Headcount | None, after: Headcount | None) -> None:
        """A node is counted otherwise than before; None: it was not, or is no longer, known."""
        if before == after:
            return
        for headcount, step in ((before, -1), (after, 1)):
            if headcount is not None:
                self._add(headcount, step)

    def _add(self, headcount: Headcount, step: int) -> None:
        status = headcount.status
        self.total += step
        self.by_status[status] += step
        self._nodes_by_status.labels(status.value).set(self.by_status[status])
        if status is not NodeHealth.OFFLINE:
            self.slots += step * headcount.slots
            for kind in headcount.types:
                self.by_service_type[kind] += step
