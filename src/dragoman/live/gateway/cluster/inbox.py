"""What other instances ask of this one, note by note."""

from __future__ import annotations

from typing import Protocol

from dragoman.ids import ConnectionId, InstanceId, SessionId
from dragoman.live.cluster import (
    AskReportNote,
    AssignNote,
    CancelNote,
    ControlNote,
    EndedNote,
    InheritedNote,
    Note,
    ResultNote,
    SessionTakenNote,
    SupersededNote,
    TryAgainNote,
    WatchNote,
)
from dragoman.live.dispatch import PeerMessages
from dragoman.live.fleet import Registry
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.ledger import Owner
from dragoman.live.protocol import RunningJob
from dragoman.live.sessions import Sessions
from dragoman.live.shared import records as r


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
        jobs: PeerMessages,
        instance_id: InstanceId,
        sessions: SessionNotes | None = None,
    ) -> None:
        self._registry = registry
        self._jobs = jobs
        self._instance_id = instance_id
        self._sessions = sessions

    def handle_at_once(self, note: Note, age_seconds: float) -> bool:
        """Do it without waiting for anything, if that is possible; whether it was done."""
        match note:
            case AssignNote():
                return self._jobs.assign_at_once(note, age_seconds)
            case ResultNote():
                return self._jobs.result_at_once(note)
            case _:
                return False

    async def handle(self, note: Note, age_seconds: float) -> None:
        match note:
            case AssignNote():
                await self._jobs.assign(note, age_seconds)
            case CancelNote():
                self._cancel(note)
            case ResultNote():
                await self._jobs.result(note)
            case EndedNote():
                await self._jobs.ended(note.job_id)
            case TryAgainNote():
                self._jobs.try_again(note)
            case InheritedNote():
                self._jobs.inherited(note.job_id, note.attempt_id)
            case WatchNote():
                self._jobs.watched(note.job_id, note.attempt_id, note.watcher, note.steps)
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
        running = RunningJob(note.job_id, note.attempt_id)
        self._jobs.cancel(running, note.node_id, self._owner(note), note.reason)

    def _owner(self, note: CancelNote | SupersededNote | ControlNote) -> Owner:
        """The connection of ours that the note is about."""
        return Owner(self._instance_id, ConnectionId(note.connection_id), note.epoch)


class SessionPost:
    """Writes to the instance that held a session, or that holds it now."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def taken(self, session_id: SessionId, before: r.SessionOwner, now: r.SessionOwner) -> None:
        note = SessionTakenNote(session_id, now.connection_id, now.epoch)
        self._outbox.post(before.instance_id, note)


class SessionInbox:
    """Takes the notes that concern sessions to them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def taken(self, note: SessionTakenNote) -> None:
        await self._sessions.taken(note.session_id, note.epoch)
