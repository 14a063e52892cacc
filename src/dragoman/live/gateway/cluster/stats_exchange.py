"""Stats of other instances: each calls out its own numbers, and remembers those of the others."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.ids import InstanceId
from dragoman.live.cluster import InstanceStats
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.gateway.cluster.roster import Roster
from dragoman.live.stats_parts import StatsPart, read_part, write_part


class OtherStats:
    """What instances said of themselves, as long as they are present."""

    def __init__(self, outbox: Outbox, roster: Roster, instance_id: InstanceId) -> None:
        self._outbox = outbox
        self._roster = roster
        self._instance_id = instance_id
        self._parts: dict[InstanceId, StatsPart] = {}

    def tell(self, part: StatsPart) -> None:
        self._outbox.publish(InstanceStats(self._instance_id, write_part(part)))

    def heard(self, news: InstanceStats) -> None:
        part = read_part(news.payload)
        if part is not None:
            self._parts[news.instance_id] = part

    def others(self) -> Iterable[StatsPart]:
        present = self._roster.addresses()
        for gone in self._parts.keys() - present.keys():
            del self._parts[gone]
        return self._parts.values()
