"""Every session of this instance: opening, resuming, and letting go of those that are gone."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from hmac import compare_digest
from random import Random

import msgspec

from dragoman import errors
from dragoman.ids import InstanceId, SessionId, TenantId, new_id
from dragoman.live.protocol import (
    PROTOCOL_VERSION,
    SessionInit,
    SessionInitAck,
    check_session_init,
)
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import SessionOwner, SessionRecord
from dragoman.live.sessions.session import Session, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")

TICK_SECONDS = 0.5
_SECRET_BITS = 256


class Sessions:
    """The table of sessions."""

    def __init__(self, tools: Tools, instance_id: InstanceId, random: Random) -> None:
        self._tools = tools
        self._instance_id = instance_id
        self._random = random
        self._open: dict[SessionId, Session] = {}
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

    async def open(self, init: SessionInit, tenant: TenantId, link: ClientLink) -> Session:
        """Open a session, or go on with the one the resume_token is for."""
        if init.resume_token is not None:
            resumed = await self._resume(init, tenant, link)
            if resumed is not None:
                return resumed
        check_session_init(init)
        if len(self._open) >= self._tools.rules.max_sessions:
            raise errors.RateLimited(
                "This server has as many sessions as it may; try again later, or another server.",
                retry_after_ms=1000,
            )
        session_id = SessionId(new_id(self._random, "s"))
        secret = f"{self._random.getrandbits(_SECRET_BITS):064x}"
        session = Session(session_id, tenant, init, self._tools, self._over)
        owner = SessionOwner(self._instance_id, link.id, 1)
        await self._tools.records.create(
            SessionRecord(session_id, tenant, _hash(secret), _without_token(init), owner)
        )
        self._open[session_id] = session
        self._tools.metrics.sessions.set(len(self._open))
        await session.attach(link, owner.epoch, 0)
        self.heard(session)
        self._ack(session, f"{session_id}.{secret}", resumed=False)
        return session

    def heard(self, session: Session) -> None:
        """Something came from the client."""
        session.last_heard = self._tools.clock.monotonic()
        self._by_heard[session.session_id] = session
        self._by_heard.move_to_end(session.session_id)

    def disconnected(self, session: Session, link: ClientLink) -> None:
        """A client's connection is gone; it may come back for a while."""
        if session.detach(link) and self._open.get(session.session_id) is session:
            self._by_heard.pop(session.session_id, None)
            self._gone[session.session_id] = self._tools.clock.monotonic()

    async def run(self) -> None:
        """Find clients that fell silent, and end sessions whose client did not come back."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._time_out_silent()
            await self._end_gone()

    async def close_all(self) -> None:
        """End every session at once."""
        for session in self:
            await session.abandon()

    def _time_out_silent(self) -> None:
        limit = self._tools.clock.monotonic() - self._tools.rules.heartbeat_timeout_seconds
        for session in list(self._by_heard.values()):
            if session.last_heard > limit:
                return
            self._by_heard.pop(session.session_id)
            if session.link is not None:
                session.link.timed_out()

    async def _end_gone(self) -> None:
        limit = self._tools.clock.monotonic() - self._tools.rules.resume_grace_seconds
        for session_id, since in list(self._gone.items()):
            if since > limit:
                return
            session = self._open.get(session_id)
            self._gone.pop(session_id, None)
            if session is not None and session.link is None:
                log.info("session_abandoned", session_id=session_id)
                try:
                    await session.abandon()
                except errors.DependencyDown:
                    self._gone[session_id] = since

    async def _resume(
        self, init: SessionInit, tenant: TenantId, link: ClientLink
    ) -> Session | None:
        token = init.resume_token or ""
        session_id, _, secret = token.rpartition(".")
        session = self._open.get(SessionId(session_id))
        record = await self._tools.records.read(SessionId(session_id))
        if session is None or record is None or record.tenant != tenant:
            return None
        if not compare_digest(record.secret_hash, _hash(secret)):
            return None
        taken = await self._tools.records.take(session.session_id, self._instance_id, link.id)
        if taken is None:
            return None
        await session.attach(link, taken.owner.epoch, init.last_delivery_seq)
        self._gone.pop(session.session_id, None)
        self.heard(session)
        self._ack(session, token, resumed=True)
        session.send_again(init.last_delivery_seq)
        return session

    def _ack(self, session: Session, token: str, *, resumed: bool) -> None:
        session.send(
            SessionInitAck(
                session_id=session.session_id,
                resume_token=token,
                resumed=resumed,
                next_chunk_seq=session.next_chunk_seq,
                next_utterance_index=session.next_utterance_index,
                protocol_version=PROTOCOL_VERSION,
                instance_id=self._instance_id,
                heartbeat_interval_ms=int(self._tools.rules.heartbeat_interval_seconds * 1000),
            )
        )

    def _over(self, session: Session) -> None:
        self._open.pop(session.session_id, None)
        self._by_heard.pop(session.session_id, None)
        self._gone.pop(session.session_id, None)
        self._tools.dispatcher.routes.forget(session.session_id)
        self._tools.metrics.sessions.set(len(self._open))


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _without_token(init: SessionInit) -> SessionInit:
    """What is stored of the init; the token is the client's alone."""
    return msgspec.structs.replace(init, resume_token=None)
