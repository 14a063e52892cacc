"""Sessions among several instances: what they tell each other of them."""

from __future__ import annotations

from dragoman.ids import InstanceId, JobId, SessionId
from dragoman.live.cluster import EndedNote, SessionTakenNote
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.sessions import SessionOwner, Sessions


class SessionPost:
    """Writes to the instance that held a session, or that holds it now."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def taken(self, session_id: SessionId, before: SessionOwner, now: SessionOwner) -> None:
        note = SessionTakenNote(session_id, now.connection_id, now.epoch)
        self._outbox.post(before.instance_id, note)

    def ended(self, job_id: JobId, to: InstanceId) -> None:
        self._outbox.post(to, EndedNote(job_id))


class SessionInbox:
    """Takes the notes that concern sessions to them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def taken(self, note: SessionTakenNote) -> None:
        await self._sessions.taken(note.session_id, note.epoch)
