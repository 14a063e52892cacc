"""Every session of this instance: opening, resuming, and letting go of those that are gone."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from heapq import heappop, heappush, nsmallest

import msgspec

from dragoman import errors
from dragoman.ids import InstanceId, SessionId, TenantId, new_id
from dragoman.live.core.sessions.session import Session, SessionContext
from dragoman.live.protocol import (
    PROTOCOL_VERSION,
    SessionInit,
    SessionInitAck,
    SessionState,
    check_session_init,
)
from dragoman.live.sessions import ClientLink, LanguageUsage
from dragoman.observability import get_logger, yielding
from dragoman.randomness import Secrets, is_same, token_hash

log = get_logger("dragoman.sessions")

TICK_SECONDS = 0.5
_RETRY_MS = 1000


class Sessions:
    """The sessions of this instance, from their opening to their end."""

    def __init__(self, context: SessionContext, instance_id: InstanceId, secrets: Secrets) -> None:
        self._context = context
        self._rules = context.rules
        self._clock = context.clock
        self._instance_id = instance_id
        self._secrets = secrets
        self._open: dict[SessionId, Session] = {}
        self._by_tenant: Counter[TenantId] = Counter()
        self.languages = LanguageUsage()
        self.heard = None
        self._looks: list[tuple[float, SessionId, Session]] = []
        """When to see whether a connected session's client has fallen silent; one entry each."""
        self._gone: OrderedDict[SessionId, float] = OrderedDict()
        """Disconnected ones, and since when."""
        self._drained: asyncio.Event | None = None
        """Set when no session is left; None while new ones may come."""

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

    # --- clients ---------------------------------------------------------------------------------

    async def open(self, init: SessionInit, tenant: TenantId, link: ClientLink) -> Session:
        """Open a session, or go on with the one the resume_token is for."""
        self._check_takes_sessions()
        if init.resume_token is not None:
            session = self._find_resumed(init.resume_token, tenant)
            if session is not None:
                self._resume(session, init, link)
                return session
        check_session_init(init)
        self._check_room(tenant)
        secret = self._secrets.token()
        session = Session(
            SessionId(new_id(self._secrets.source, "s")),
            tenant,
            # The token is the client's alone.
            msgspec.structs.replace(init, resume_token=None),
            token_hash(secret),
            self._context,
            self._over,
        )
        self._open[session.session_id] = session
        self._by_tenant[tenant] += 1
        self.languages.opened(session.init)
        self._context.metrics.sessions.set(len(self._open))
        session.attach(link)
        self._connected(session)
        self._ack(session, f"{session.session_id}.{secret}", resumed=False)
        return session

    def _connected(self, session: Session) -> None:
        session.last_heard = self._clock.monotonic()
        if not session.is_looked_at:
            session.is_looked_at = True
            self._look_later(session)

    def disconnected(self, session: Session, link: ClientLink) -> None:
        """A client's connection is gone; it may come back for a while."""
        if session.detach(link) and self._open.get(session.session_id) is session:
            self._gone[session.session_id] = self._clock.monotonic()

    def _find_resumed(self, token: str, tenant: TenantId) -> Session | None:
        session_id, _, secret = token.rpartition(".")
        session = self._open.get(SessionId(session_id))
        if session is None or session.tenant != tenant:
            return None
        return session if is_same(session.secret_hash, token_hash(secret)) else None

    def _resume(self, session: Session, init: SessionInit, link: ClientLink) -> None:
        self._gone.pop(session.session_id, None)
        session.attach(link)
        self._connected(session)
        self._ack(session, init.resume_token or "", resumed=True)
        session.go_on(init.last_delivery_seq)

    def _ack(self, session: Session, token: str, *, resumed: bool) -> None:
        if session.link is None:
            return
        session.link.send(
            SessionInitAck(
                session_id=session.session_id,
                resume_token=token,
                resumed=resumed,
                next_chunk_seq=session.next_chunk_seq,
                next_utterance_index=session.next_utterance_index,
                protocol_version=PROTOCOL_VERSION,
                instance_id=self._instance_id,
                heartbeat_interval_ms=int(self._rules.heartbeat_interval_seconds * 1000),
            )
        )

    def _check_takes_sessions(self) -> None:
        if self._drained is not None:
            raise errors.ServerDraining("This server is shutting down; ask another one.")

    def _check_room(self, tenant: TenantId) -> None:
        if len(self._open) >= self._rules.max_sessions:
            raise errors.RateLimited(
                "This server has as many sessions as it may; try again later, or another server.",
                retry_after_ms=_RETRY_MS,
            )
        limit = self._rules.sessions_per_tenant
        if limit and self._by_tenant[tenant] >= limit:
            raise errors.RateLimited(
                f"Tenant {tenant!r} has as many sessions as it may; close one, or try again later.",
                retry_after_ms=_RETRY_MS,
            )

    # --- time ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Find clients that fell silent, and end sessions whose client did not come back."""
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                now = self._clock.monotonic()
                async for session in yielding(self._silent(now), self._clock):
                    if session.link is not None:
                        session.link.timed_out()
                await self._end_gone(now)
        finally:
            for session in self:
                session.stop()

    async def drain(self) -> None:
        """Send every client on to another instance, once it has been told what is under way."""
        self._drained = asyncio.Event()
        async for session in yielding(self, self._clock):
            session.drain()
        if self._open:
            await self._drained.wait()

    def _silent(self, now: float) -> Iterator[Session]:
        """Connected sessions whose client has said nothing for too long."""
        timeout, looks = self._rules.heartbeat_timeout_seconds, self._looks
        while looks and looks[0][0] <= now:
            _, _, session = heappop(looks)
            if session.link is None or session.state is SessionState.OVER:
                session.is_looked_at = False
            elif session.last_heard + timeout > now:
                self._look_later(session)
            else:
                session.is_looked_at = False
                yield session

    def _look_later(self, session: Session) -> None:
        due = session.last_heard + self._rules.heartbeat_timeout_seconds
        heappush(self._looks, (due, session.session_id, session))

    def _gone_since(self, limit: float) -> Iterator[SessionId]:
        for session_id, since in list(self._gone.items()):
            if since > limit:
                return
            yield session_id

    async def _end_gone(self, now: float) -> None:
        """End sessions whose clients have been away for too long; they may be many."""
        gone = self._gone_since(now - self._rules.resume_grace_seconds)
        async for session_id in yielding(gone, self._clock):
            session = self._open.get(session_id)
            if session is None or session.link is not None:
                # The client came back while others were looked at.
                self._gone.pop(session_id, None)
                continue
            log.info("session_abandoned", session_id=session_id)
            session.abandon()

    def _over(self, session: Session) -> None:
        """A session has come to its end."""
        session_id = session.session_id
        if self._open.pop(session_id, None) is None:
            return
        self._by_tenant[session.tenant] -= 1
        if not self._by_tenant[session.tenant]:
            del self._by_tenant[session.tenant]
        self.languages.closed(session.init)
        self._gone.pop(session_id, None)
        self._context.metrics.sessions.set(len(self._open))
        if self._drained is not None and not self._open:
            self._drained.set()
