"""What this instance tells the others: notes to one of them, news to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from dragoman.errors import DependencyDown
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.cluster import (
    AskReportNote,
    AssignNote,
    CancelNote,
    CatalogStale,
    Change,
    Cluster,
    ControlNote,
    EndedNote,
    InheritedNote,
    InstanceGone,
    NodeChanged,
    Note,
    Posted,
    SlotFreed,
    SupersededNote,
    TryAgainNote,
    WatchNote,
)
from dragoman.live.cluster import Progress as ProgressNews
from dragoman.live.dispatch import Progress
from dragoman.live.gateway.cluster.progress_news import PartialNews, StepNews, write_progress
from dragoman.live.gateway.cluster.roster import Roster
from dragoman.live.ledger import Granted, Owner
from dragoman.live.protocol import Command, JobPartial, RunningJob
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

_MOST_UNDERWAY = 10_000
"""Hints that are being sent; past it they are dropped, and what they were about is swept up."""

_FREED_EVERY_SECONDS = 0.02
"""Slots come free one by one, and are told of together."""


class Outbox:
    """Writes to other instances. What is not awaited may get lost."""

    def __init__(self, cluster: Cluster, roster: Roster) -> None:
        self._cluster = cluster
        self._roster = roster
        self._tasks: set[asyncio.Task[None]] = set()
        self._freed_slots = 0
        self.on_gone: Callable[[InstanceId], None] = lambda instance_id: None
        """Called when no instance of a name is present."""

    # --- hints -----------------------------------------------------------------------------------

    def post(self, to: InstanceId, note: Note) -> None:
        """Write a note to an instance, when there is time."""
        self._soon(self._post(to, note))

    def publish(self, change: Change, to: InstanceId | None = None) -> None:
        """Call something out, when there is time."""
        self._soon(self._publish(change, to))

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what dispatch says ----------------------------------------------------------------------

    async def assign(
        self, running: RunningJob, granted: Granted, *, watched: bool, traceparent: str | None
    ) -> bool:
        owner = granted.owner
        note = AssignNote(
            running.job_id,
            running.attempt_id,
            granted.cell,
            granted.node_id,
            owner.connection_id,
            owner.epoch,
            watched,
            traceparent,
        )
        try:
            answer = await self._cluster.post(owner.instance_id, note)
        except DependencyDown:
            # It may be in the inbox: the node has its time to acknowledge, as if it was told.
            return True
        if isinstance(answer, InstanceGone):
            self.on_gone(owner.instance_id)
        return isinstance(answer, Posted)

    def cancel(self, running: RunningJob, node_id: NodeId, owner: Owner, reason: str) -> None:
        self.post(
            owner.instance_id,
            CancelNote(
                running.job_id,
                running.attempt_id,
                node_id,
                owner.connection_id,
                owner.epoch,
                reason,
            ),
        )

    def ask_report(self, node_id: NodeId, owner: Owner) -> None:
        self.control(node_id, owner, Command.REPORT)

    def ask_cells(self, cells: Iterable[int]) -> None:
        for cell in cells:
            for instance_id in self._roster.others():
                self.post(instance_id, AskReportNote(cell))

    def ended(self, job_id: JobId, driver: InstanceId) -> None:
        self.post(driver, EndedNote(job_id))

    def try_again(self, job_id: JobId, driver: InstanceId) -> None:
        self.post(driver, TryAgainNote(job_id))

    def inherited(self, job_id: JobId, attempt_id: AttemptId, driver: InstanceId) -> None:
        self.post(driver, InheritedNote(job_id, attempt_id))

    def freed(self, slots: int) -> None:
        if not self._freed_slots:
            loop = asyncio.get_running_loop()
            loop.call_later(_FREED_EVERY_SECONDS, self._publish_freed)
        self._freed_slots += slots

    def progressed(self, running: RunningJob, driver: InstanceId, progress: Progress) -> None:
        payload = write_progress(StepNews(progress))
        self.publish(ProgressNews(running.job_id, running.attempt_id, payload), driver)

    def partial(self, partial: JobPartial, driver: InstanceId) -> None:
        payload = write_progress(PartialNews(partial.text, partial.is_final))
        self.publish(ProgressNews(partial.job_id, partial.attempt_id, payload), driver)

    def watch(
        self, job_id: JobId, attempt_id: AttemptId | None, to: InstanceId, *, steps: bool
    ) -> None:
        self.post(to, WatchNote(job_id, attempt_id, self._cluster.instance_id, steps))

    # --- what the fleet says ---------------------------------------------------------------------

    def changed(self, cell: int, node_id: NodeId) -> None:
        self.publish(NodeChanged(cell, node_id))

    def superseded(self, node_id: NodeId, owner: Owner) -> None:
        self.post(owner.instance_id, SupersededNote(node_id, owner.connection_id, owner.epoch))

    def control(
        self, node_id: NodeId, owner: Owner, command: Command, reason: str | None = None
    ) -> None:
        self.post(
            owner.instance_id,
            ControlNote(node_id, owner.connection_id, owner.epoch, command, reason),
        )

    def model_missed(self, service_id: str, version: str | None) -> None:
        """Every instance may have to read the catalog again."""
        self.publish(CatalogStale(service_id, version))

    # --- inside ----------------------------------------------------------------------------------

    def _publish_freed(self) -> None:
        slots, self._freed_slots = self._freed_slots, 0
        self.publish(SlotFreed(slots))

    async def _post(self, to: InstanceId, note: Note) -> None:
        answer = await self._cluster.post(to, note)
        if not isinstance(answer, Posted):
            log.info("note_not_posted", to=to, kind=type(note).__name__, why=type(answer).__name__)

    async def _publish(self, change: Change, to: InstanceId | None) -> None:
        await self._cluster.publish(change, to)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= _MOST_UNDERWAY:
            work.close()
            log.warning_limited("hints_dropped", key="hints", every_seconds=10)
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DependencyDown):
            log.warning_limited("hint_lost", key="hint", every_seconds=10, error=error.message)
        elif error is not None:
            log.error("hint_failed", error=repr(error))
