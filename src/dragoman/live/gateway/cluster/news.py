"""What this instance does about news from others. Whatever it misses, a later look finds."""

from __future__ import annotations

from dragoman.live.cluster import (
    CatalogStale,
    Change,
    InstanceStats,
    NodeChanged,
    Progress,
    SlotFreed,
)
from dragoman.live.dispatch import PeerMessages
from dragoman.live.fleet import ServiceCatalog
from dragoman.live.gateway.cluster.far_cells import FarCells
from dragoman.live.gateway.cluster.progress_news import PartialNews, StepNews, read_progress
from dragoman.live.gateway.cluster.stats_exchange import OtherStats
from dragoman.live.protocol import JobPartial, RunningJob


class News:
    """Hands news to whom they concern."""

    def __init__(
        self, cells: FarCells, jobs: PeerMessages, catalog: ServiceCatalog, stats: OtherStats
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
            case Progress():
                self._progressed(change)
            case CatalogStale():
                self._catalog.refresh_soon()
            case InstanceStats():
                self._stats.heard(change)

    def missed_some(self) -> None:
        self._cells.look_at_all()

    def _progressed(self, change: Progress) -> None:
        match read_progress(change.payload):
            case StepNews(progress):
                running = RunningJob(change.job_id, change.attempt_id)
                self._jobs.progressed(running, progress)
            case PartialNews(text, is_final):
                partial = JobPartial(change.job_id, change.attempt_id, text, is_final)
                self._jobs.partial(partial)
