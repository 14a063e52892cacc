"""Every session of this instance: opening, resuming, and letting go of those that are gone."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from heapq import nsmallest
from hmac import compare_digest
from random import Random

import msgspec

from dragoman import errors
from dragoman.ids import InstanceId, SessionId, TenantId, new_id
from dragoman.live.protocol import (
    PROTOCOL_VERSION,
    SessionInit,
    SessionInitAck,
    SessionState,
    check_session_init,
)
from dragoman.live.sessions.languages import LanguageUsage
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import SessionOwner, SessionRecord
from dragoman.live.sessions.session import Session
from dragoman.live.sessions.tools import Tools
from dragoman.observability import get_logger, yielding

log = get_logger("dragoman.sessions")

TICK_SECONDS = 0.5
CHECK_SECONDS = 5.0
_SECRET_BITS = 256
_RETRY_MS = 1000


class Sessions:
    """The table of sessions."""

    def __init__(self, tools: Tools, instance_id: InstanceId, random: Random) -> None:
        self._tools = tools
        self._instance_id = instance_id
        self._random = random
        self._open: dict[SessionId, Session] = {}
        self._by_tenant: Counter[TenantId] = Counter()
        self.languages = LanguageUsage()
        self._by_heard: OrderedDict[SessionId, Session] = OrderedDict()
        """Connected sessions, the one not heard of for longest first."""
        self._gone: OrderedDict[SessionId, float] = OrderedDict()
        """Disconnected ones, and since when."""
        self._to_forget: dict[SessionId, int] = {}
        """Sessions that are over and whose records are still kept, with their epochs."""

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

    async def open(self, init: SessionInit, tenant: TenantId, link: ClientLink) -> Session:
        """Open a session, or go on with the one the resume_token is for."""
        if init.resume_token is not None:
            resumed = await self._resume(init, tenant, link)
            if resumed is not None:
                return resumed
        check_session_init(init)
        self._check_room(tenant)
        session_id = SessionId(new_id(self._random, "s"))
        secret = f"{self._random.getrandbits(_SECRET_BITS):064x}"
        session = Session(session_id, tenant, init, self._tools, self._over)
        owner = SessionOwner(self._instance_id, link.id, 1)
        self._enter(session)
        try:
            await self._tools.records.create(
                SessionRecord(session_id, tenant, _hash(secret), _without_token(init), owner)
            )
        except BaseException:
            self._over(session)
            raise
        session.attach(link, owner.epoch)
        self.heard(session)
        self._ack(session, f"{session_id}.{secret}", resumed=False)
        return session

    def heard(self, session: Session) -> None:
        """Something came from the client."""
        if session.state is SessionState.OVER:
            return
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
        checked_at = self._tools.clock.monotonic()
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self._time_out_silent()
                await self._end_gone()
                await self._forget_records()
                if self._tools.clock.monotonic() - checked_at >= CHECK_SECONDS:
                    checked_at = self._tools.clock.monotonic()
                    await self._look_for_lost_jobs()
        finally:
            for session in self:
                session.stop()

    def _time_out_silent(self) -> None:
        limit = self._tools.clock.monotonic() - self._tools.rules.heartbeat_timeout_seconds
        for session in list(self._by_heard.values()):
            if session.last_heard > limit:
                return
            self._by_heard.pop(session.session_id)
            if session.link is not None:
                session.link.timed_out()

    async def _look_for_lost_jobs(self) -> None:
        try:
            async for session in yielding(self, self._tools.clock):
                await session.look_for_lost_jobs()
        except errors.DependencyDown as error:
            log.warning_limited(
                "lost_jobs_not_looked_for", key="lost", every_seconds=10, error=error.message
            )

    async def _end_gone(self) -> None:
        limit = self._tools.clock.monotonic() - self._tools.rules.resume_grace_seconds
        for session_id, since in list(self._gone.items()):
            if since > limit:
                return
            session = self._open.get(session_id)
            self._gone.pop(session_id, None)
            if session is not None and session.link is None:
                log.info("session_abandoned", session_id=session_id)
                await session.abandon()

    async def _forget_records(self) -> None:
        """Forget sessions that are over; those that cannot be forgotten now, at the next tick."""
        while self._to_forget:
            session_id, epoch = self._to_forget.popitem()
            try:
                if not await self._tools.records.forget(session_id, epoch):
                    await self._forget_unheard_take(session_id)
            except errors.DependencyDown as down:
                self._to_forget[session_id] = epoch
                log.warning_limited(
                    "session_not_forgotten", key="forget", every_seconds=10, error=down.message
                )
                return

    async def _forget_unheard_take(self, session_id: SessionId) -> None:
        """A resume raised the epoch, and the answer was lost: the record is still this one's."""
        record = await self._tools.records.read(session_id)
        if record is not None and record.owner.instance_id == self._instance_id:
            await self._tools.records.forget(session_id, record.owner.epoch)

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
        if taken is None or session.state is SessionState.OVER:
            return None
        self._gone.pop(session.session_id, None)
        session.attach(link, taken.owner.epoch)
        self.heard(session)
        self._ack(session, token, resumed=True)
        await session.go_on(init.last_delivery_seq)
        return session

    def _check_room(self, tenant: TenantId) -> None:
        rules = self._tools.rules
        if len(self._open) >= rules.max_sessions:
            raise errors.RateLimited(
                "This server has as many sessions as it may; try again later, or another server.",
                retry_after_ms=_RETRY_MS,
            )
        if rules.sessions_per_tenant and self._by_tenant[tenant] >= rules.sessions_per_tenant:
            raise errors.RateLimited(
                f"Tenant {tenant!r} has as many sessions as it may; close one, or try again later.",
                retry_after_ms=_RETRY_MS,
            )

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
                heartbeat_interval_ms=int(self._tools.rules.heartbeat_interval_seconds * 1000),
            )
        )

    def _enter(self, session: Session) -> None:
        self._open[session.session_id] = session
        self._by_tenant[session.tenant] += 1
        self.languages.opened(session.init)
        self._tools.metrics.sessions.set(len(self._open))

    def _over(self, session: Session) -> None:
        if self._open.pop(session.session_id, None) is None:
            return
        self.languages.closed(session.init)
        self._by_tenant[session.tenant] -= 1
        if not self._by_tenant[session.tenant]:
            del self._by_tenant[session.tenant]
        self._by_heard.pop(session.session_id, None)
        self._gone.pop(session.session_id, None)
        self._tools.dispatcher.routes.forget(session.session_id)
        self._to_forget[session.session_id] = session.epoch
        self._tools.dispatcher.spawn(self._forget_records())
        self._tools.metrics.sessions.set(len(self._open))


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _without_token(init: SessionInit) -> SessionInit:
    """What is stored of the init; the token is the client's alone."""
    return msgspec.structs.replace(init, resume_token=None)
