"""What this instance tells the others: notes to one of them, news to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

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
    InstanceView,
    NodeChanged,
    Note,
    Posted,
    Presence,
    ResultNote,
    SlotFreed,
    SupersededNote,
    TryAgainNote,
    WatchNote,
)
from dragoman.live.cluster import AttemptProgress as ProgressNews
from dragoman.live.dispatch import Progress, Share
from dragoman.live.ledger import Owner
from dragoman.live.protocol import Command, JobPartial, RunningJob
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")


class Roster:
    """The instances that were present when they were last asked for."""

    def __init__(
        self, presence: Presence, instance_id: InstanceId, common: Mapping[str, str]
    ) -> None:
        """`common` are the settings that all instances must have alike, as this one has them."""
        self._presence = presence
        self._instance_id = instance_id
        self._common = common
        self._present: tuple[InstanceId, ...] = ()
        self._urls: dict[InstanceId, str] = {}
        self._disagreement: str | None = None

    async def refresh(self) -> None:
        """Ask who is present; while Redis does not answer, this instance sees to everything."""
        try:
            views = await self._presence.instances()
        except DependencyDown:
            self._present = ()
            raise
        self._present = tuple(sorted(view.instance_id for view in views if view.alive))
        self._urls = {view.instance_id: view.card.url for view in views if view.alive}
        self._compare([view for view in views if view.alive])

    def others(self) -> tuple[InstanceId, ...]:
        return tuple(name for name in self._present if name != self._instance_id)

    def addresses(self) -> dict[InstanceId, str]:
        """Where the other instances answer over HTTP, as they last said."""
        return {name: url for name, url in self._urls.items() if name != self._instance_id}

    def share(self) -> Share:
        """This instance's part of what all of them look after."""
        if self._instance_id not in self._present:
            return Share()
        return Share(self._present.index(self._instance_id), len(self._present))

    def disagreement(self) -> str | None:
        """The settings that instances should have alike and have not; None where all agree."""
        return self._disagreement

    def _compare(self, views: Sequence[InstanceView]) -> None:
        said = [
            f"{name} is {own} at {self._instance_id} and {other} at {view.instance_id}"
            for view in views
            for name, own in self._common.items()
            if (other := view.card.common.get(name, own)) != own
        ]
        self._disagreement = None
        if said:
            self._disagreement = f"Instances of the cluster must agree: {'; '.join(said)}."
            log.warning_limited(
                "cluster_settings_differ",
                key="cluster settings",
                every_seconds=600,
                settings=self._disagreement,
            )


class StepNews(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """The attempt took a step."""

    progress: Progress


class PartialNews(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """What the node has recognised so far."""

    text: str
    is_final: bool


_Payload: TypeAlias = StepNews | PartialNews

write_progress = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Payload)


def read_progress(payload: bytes) -> StepNews | PartialNews | None:
    """None for news that this version of Dragoman cannot read."""
    try:
        news: StepNews | PartialNews = _decoder.decode(payload)
    except msgspec.DecodeError:
        return None
    return news


_MOST_UNDERWAY = 10_000
"""Hints that are being sent; past it they are dropped, and what they were about is swept up."""

_MOST_TOGETHER = 100
"""Notes that are posted in one step."""


class Outbox:
    """Writes to other instances. What is not awaited may get lost."""

    def __init__(self, cluster: Cluster, roster: Roster) -> None:
        self._cluster = cluster
        self._roster = roster
        self._tasks: set[asyncio.Task[None]] = set()
        self._written: dict[InstanceId, list[Note]] = {}
        """Notes of this turn of the event loop, which go together."""
        self._underway = 0
        """Notes that are being sent."""
        self.on_not_told: Callable[[AttemptId], None] = lambda attempt_id: None
        """Called when the instance of an attempt's node surely was not reached."""
        self.on_gone: Callable[[InstanceId], None] = lambda instance_id: None
        """Called when no instance of a name is present."""

    # --- hints -----------------------------------------------------------------------------------

    def post(self, to: InstanceId, note: Note) -> None:
        """Write a note to an instance, when there is time."""
        if self._underway >= _MOST_UNDERWAY:
            log.warning_limited("hints_dropped", key="hints", every_seconds=10)
            return
        self._underway += 1
        notes = self._written.get(to)
        if notes is not None:
            notes.append(note)
            return
        self._written[to] = [note]
        self._soon(self._post_all(to))

    def publish(self, change: Change, to: InstanceId | None = None) -> None:
        """Call something out, when there is time."""
        if len(self._tasks) >= _MOST_UNDERWAY:
            log.warning_limited("hints_dropped", key="hints", every_seconds=10)
            return
        self._soon(self._publish(change, to))

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what dispatch says ----------------------------------------------------------------------

    def present(self) -> Collection[InstanceId]:
        return self._roster.others()

    def assign(self, note: AssignNote, to: InstanceId) -> None:
        self.post(to, note)

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

    async def _post_all(self, to: InstanceId) -> None:
        notes = self._written.pop(to)
        for start in range(_MOST_TOGETHER, len(notes), _MOST_TOGETHER):
            self._soon(self._post(to, notes[start : start + _MOST_TOGETHER]))
        await self._post(to, notes[:_MOST_TOGETHER])

    async def _post(self, to: InstanceId, notes: Sequence[Note]) -> None:
        try:
            answer = await self._cluster.post(to, *notes)
        finally:
            self._underway -= len(notes)
        if isinstance(answer, Posted):
            return
        attempts = [note.attempt_id for note in notes if isinstance(note, AssignNote)]
        if attempts and isinstance(answer, InstanceGone):
            self.on_gone(to)
        for attempt_id in attempts:
            self.on_not_told(attempt_id)
        if len(attempts) < len(notes):
            kinds = sorted({type(note).__name__ for note in notes})
            log.info("note_not_posted", to=to, kinds=kinds, why=type(answer).__name__)

    async def _publish(self, change: Change, to: InstanceId | None) -> None:
        await self._cluster.publish(change, to)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
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
