"""The sessions that this instance holds: who they are, and when they were last heard of."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from heapq import nsmallest

from dragoman.clock import Clock
from dragoman.ids import SessionId, TenantId
from dragoman.live.protocol import SessionState
from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.session import Session
from dragoman.observability import yielding


class SessionTable:
    """Sessions by their ids, by tenant, and by how long nothing was heard of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[SessionId, Session] = {}
        self._by_tenant: Counter[TenantId] = Counter()
        self.languages = LanguageUsage()
        self._by_heard: OrderedDict[SessionId, Session] = OrderedDict()
        """Connected sessions, the one not heard of for longest first."""
        self._gone: OrderedDict[SessionId, float] = OrderedDict()
        """Disconnected ones, and since when."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open.values()))

    def find(self, session_id: SessionId) -> Session | None:
        return self._open.get(session_id)

    def after(
        self, session_id: SessionId | None, limit: int, tenant: TenantId | None = None
    ) -> list[Session]:
        """Some sessions, of one tenant or of all, in the order of their ids."""
        found = (
            session
            for session in self._open.values()
            if (session_id is None or session.session_id > session_id)
            and (tenant is None or session.tenant == tenant)
        )
        return nsmallest(limit, found, key=lambda session: session.session_id)

    def heard(self, session: Session) -> None:
        """Something came from the client."""
        if session.state is SessionState.OVER:
            return
        session.last_heard = self._clock.monotonic()
        self._by_heard[session.session_id] = session
        self._by_heard.move_to_end(session.session_id)

    def disconnected(self, session: Session, link: ClientLink) -> None:
        """A client's connection is gone; it may come back for a while."""
        if session.detach(link) and self._open.get(session.session_id) is session:
            self._by_heard.pop(session.session_id, None)
            self._gone[session.session_id] = self._clock.monotonic()

    def _add(self, session: Session) -> None:
        self._open[session.session_id] = session
        self._by_tenant[session.tenant] += 1
        self.languages.opened(session.init)

    def _remove(self, session: Session) -> bool:
        """Take a session out; False when it is no longer in."""
        if self._open.get(session.session_id) is not session:
            return False
        del self._open[session.session_id]
        self._by_tenant[session.tenant] -= 1
        if not self._by_tenant[session.tenant]:
            del self._by_tenant[session.tenant]
        self.languages.closed(session.init)
        self._by_heard.pop(session.session_id, None)
        self._gone.pop(session.session_id, None)
        return True

    async def _time_out_silent(self, timeout_seconds: float) -> None:
        """Close the connections over which nothing came for so long; it may be those of many."""
        limit = self._clock.monotonic() - timeout_seconds
        async for session in yielding(self._silent_since(limit), self._clock):
            self._by_heard.pop(session.session_id, None)
            if session.link is not None:
                session.link.timed_out()

    def _silent_since(self, limit: float) -> Iterator[Session]:
        while self._by_heard:
            session = next(iter(self._by_heard.values()))
            if session.last_heard > limit:
                return
            yield session

    def _gone_for(self, seconds: float) -> Iterator[SessionId]:
        """Sessions whose clients have been away for so long."""
        limit = self._clock.monotonic() - seconds
        for session_id, since in list(self._gone.items()):
            if since > limit:
                return
            yield session_id
