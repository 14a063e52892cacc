"""What this instance does about news from others. Whatever it misses, a later look finds."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    AttemptProgress,
    CatalogStale,
    Change,
    InstanceStats,
    NodeChanged,
    SlotFreed,
)
from dragoman.live.dispatch import PeerMessages
from dragoman.live.fleet import ServiceCatalog
from dragoman.live.gateway.cluster.outbox import (
    Outbox,
    PartialNews,
    Roster,
    StepNews,
    read_progress,
)
from dragoman.live.gateway.cluster.remote_nodes import RemoteCells
from dragoman.live.protocol import JobPartial, RunningJob
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


class News:
    """Hands news to whom they concern."""

    def __init__(
        self, cells: RemoteCells, jobs: PeerMessages, catalog: ServiceCatalog, stats: OtherStats
    ) -> None:
        self._cells = cells
        self._jobs = jobs
        self._catalog = catalog
        self._stats = stats

    def heard(self, change: Change) -> None:
        match change:
            case NodeChanged():
                self._cells.look_at(change.cell)
            case SlotFreed():
                self._jobs.freed(change.slots)
            case AttemptProgress():
                self._progressed(change)
            case CatalogStale():
                self._catalog.refresh_soon()
            case InstanceStats():
                self._stats.heard(change)

    def missed_some(self) -> None:
        self._cells.look_at_all()

    def _progressed(self, change: AttemptProgress) -> None:
        match read_progress(change.payload):
            case StepNews(progress):
                running = RunningJob(change.job_id, change.attempt_id)
                self._jobs.progressed(running, progress)
            case PartialNews(text, is_final):
                partial = JobPartial(change.job_id, change.attempt_id, text, is_final)
                self._jobs.partial(partial)
