"""What other instances ask of this one, note by note."""

from __future__ import annotations

from typing import Protocol

from dragoman.ids import ConnectionId, InstanceId
from dragoman.live.cluster import (
    AskReportNote,
    AssignNote,
    CancelNote,
    ControlNote,
    EndedNote,
    InheritedNote,
    Note,
    SessionTakenNote,
    SupersededNote,
    TryAgainNote,
    WatchNote,
)
from dragoman.live.dispatch import Dispatcher
from dragoman.live.fleet import Registry
from dragoman.live.ledger import Owner
from dragoman.live.protocol import RunningJob


class SessionNotes(Protocol):
    """Takes the notes that concern sessions."""

    async def taken(self, note: SessionTakenNote) -> None:
        """A session was resumed elsewhere."""
        ...


class NoteHandler:
    """Does what a note asks for, if the truth has not moved on. Doing it twice does no harm."""

    def __init__(
        self,
        registry: Registry,
        dispatcher: Dispatcher,
        instance_id: InstanceId,
        sessions: SessionNotes | None = None,
    ) -> None:
        self._registry = registry
        self._dispatcher = dispatcher
        self._instance_id = instance_id
        self._sessions = sessions

    async def handle(self, note: Note) -> None:
        match note:
            case AssignNote():
                await self._assign(note)
            case CancelNote():
                self._cancel(note)
            case EndedNote():
                await self._dispatcher.peer_events.ended(note.job_id)
            case TryAgainNote():
                await self._dispatcher.peer_events.try_again(note.job_id)
            case InheritedNote():
                self._dispatcher.peer_events.inherited(note.job_id, note.attempt_id)
            case WatchNote():
                self._dispatcher.peer_events.watched(
                    note.job_id, note.attempt_id, note.watcher, note.steps
                )
            case SupersededNote():
                self._registry.superseded(note.node_id, self._owner(note))
            case ControlNote():
                self._registry.control(note.node_id, self._owner(note), note.command, note.reason)
            case AskReportNote():
                self._registry.report((note.cell,))
            case SessionTakenNote():
                if self._sessions is not None:
                    await self._sessions.taken(note)

    def _cancel(self, note: CancelNote) -> None:
        hosting = self._dispatcher.hosting
        if hosting is not None:
            running = RunningJob(note.job_id, note.attempt_id)
            hosting.cancel(running, note.node_id, self._owner(note), note.reason)

    async def _assign(self, note: AssignNote) -> None:
        hosting = self._dispatcher.hosting
        if hosting is not None:
            await hosting.assign(
                RunningJob(note.job_id, note.attempt_id),
                note.cell,
                note.node_id,
                self._owner(note),
                watched=note.watched,
                traceparent=note.traceparent,
            )

    def _owner(self, note: AssignNote | CancelNote | SupersededNote | ControlNote) -> Owner:
        """The connection of ours that the note is about."""
        return Owner(self._instance_id, ConnectionId(note.connection_id), note.epoch)
