"""What this instance tells the others: notes to one of them, news to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
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
    ResultNote,
    SlotFreed,
    SupersededNote,
    TryAgainNote,
    WatchNote,
)
from dragoman.live.cluster import Progress as ProgressNews
from dragoman.live.dispatch import Progress
from dragoman.live.gateway.cluster.progress_news import PartialNews, StepNews, write_progress
from dragoman.live.gateway.cluster.roster import Roster
from dragoman.live.ledger import Owner
from dragoman.live.protocol import Command, JobPartial, RunningJob
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

_MOST_UNDERWAY = 10_000
"""Hints that are being sent; past it they are dropped, and what they were about is swept up."""


class Outbox:
    """Writes to other instances. What is not awaited may get lost."""

    def __init__(self, cluster: Cluster, roster: Roster) -> None:
        self._cluster = cluster
        self._roster = roster
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_not_told: Callable[[AttemptId], None] = lambda attempt_id: None
        """Called when the instance of an attempt's node surely was not reached."""
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

    def present(self) -> Collection[InstanceId]:
        return self._roster.others()

    def assign(self, note: AssignNote, to: InstanceId) -> None:
        self._soon(self._assign(note, to))

    async def _assign(self, note: AssignNote, to: InstanceId) -> None:
        answer = await self._cluster.post(to, note)
        if isinstance(answer, InstanceGone):
            self.on_gone(to)
        if not isinstance(answer, Posted):
            self.on_not_told(note.attempt_id)

    def result(self, note: ResultNote, to: InstanceId) -> None:
        self.post(to, note)

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

    def ended(self, job_id: JobId, to: InstanceId) -> None:
        self.post(to, EndedNote(job_id))

    def try_again(
        self, job_id: JobId, attempt_id: AttemptId, to: InstanceId, *, preempted: bool = False
    ) -> None:
        self.post(to, TryAgainNote(job_id, attempt_id, preempted))

    def inherited(self, job_id: JobId, attempt_id: AttemptId, to: InstanceId) -> None:
        self.post(to, InheritedNote(job_id, attempt_id))

    def freed(self, slots: int, to: InstanceId) -> None:
        self.publish(SlotFreed(slots), to)

    def progressed(self, running: RunningJob, to: InstanceId, progress: Progress) -> None:
        payload = write_progress(StepNews(progress))
        self.publish(ProgressNews(running.job_id, running.attempt_id, payload), to)

    def partial(self, partial: JobPartial, to: InstanceId) -> None:
        payload = write_progress(PartialNews(partial.text, partial.is_final))
        self.publish(ProgressNews(partial.job_id, partial.attempt_id, payload), to)

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
