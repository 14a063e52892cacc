"""One at a time: resumes of one session wait for each other, those of others do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.ids import SessionId
from dragoman.observability import Watch, WatchedLock


class Turns:
    """Gives each session's visitors their turn, and forgets the session after the last of them."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._visitors: dict[SessionId, int] = {}
        self._locks: dict[SessionId, WatchedLock] = {}

    def __len__(self) -> int:
        """Sessions that a task visits."""
        return len(self._visitors)

    def __contains__(self, session_id: SessionId) -> bool:
        return session_id in self._visitors

    @asynccontextmanager
    async def turn(self, session_id: SessionId) -> AsyncIterator[None]:
        """Wait for the visitors that came before."""
        lock = self._locks.setdefault(session_id, self._watch.watched_lock("session_resume"))
        self._visitors[session_id] = self._visitors.get(session_id, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._visitors[session_id] -= 1
            if not self._visitors[session_id]:
                del self._visitors[session_id], self._locks[session_id]
