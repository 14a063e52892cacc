"""Sessions among several instances: what they tell each other of them."""

from __future__ import annotations

from dragoman.ids import SessionId
from dragoman.live.cluster import SessionTakenNote
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.sessions import Sessions
from dragoman.live.shared import records as r


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
