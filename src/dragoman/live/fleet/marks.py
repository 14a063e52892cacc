"""Marks: services of nodes that are left out for a while."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from dragoman.clock import Clock
from dragoman.ids import NodeId

MARKS_PER_NODE = 1_000
"""More services than any node runs; past it the oldest mark of the node goes."""


class Mark(msgspec.Struct, frozen=True):
    """A service that a node said it does not have, and until when it is believed."""

    service_id: str
    reason: str
    ends_at: float
    """On the monotonic clock, in seconds."""
    expires_at_ms: int
    """The same moment, for people."""


class Marks:
    """Which services of which nodes are marked. Every mark lasts equally long."""

    def __init__(self, ttl_seconds: float, clock: Clock) -> None:
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._by_node: dict[NodeId, dict[str, Mark]] = {}
        self._by_age: OrderedDict[tuple[NodeId, str], Mark] = OrderedDict()
        """The mark that ends first comes first."""

    def add(self, node_id: NodeId, service_id: str, reason: str) -> None:
        """Mark a service; one that is marked already stays so for the whole time again."""
        marks = self._by_node.setdefault(node_id, {})
        marks.pop(service_id, None)
        mark = marks[service_id] = Mark(
            service_id,
            reason,
            ends_at=self._clock.monotonic() + self._ttl_seconds,
            expires_at_ms=self._clock.now_ms() + int(self._ttl_seconds * 1000),
        )
        self._by_age[node_id, service_id] = mark
        self._by_age.move_to_end((node_id, service_id))
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
            (node_id, service_id), _ = self._by_age.popitem(last=False)
            marks = self._by_node[node_id]
            del marks[service_id]
            if not marks:
                del self._by_node[node_id]
            changed.add(node_id)
        return changed

    def __len__(self) -> int:
        return len(self._by_age)
