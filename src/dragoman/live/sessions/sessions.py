"""Every session of this instance: opening, resuming, and letting go of those that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

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
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.record import ChangedHands, SessionOwner, SessionRecord, Taken
from dragoman.live.sessions.renewal import Renewal
from dragoman.live.sessions.revival import is_behind, read_jobs
from dragoman.live.sessions.session import Session
from dragoman.live.sessions.table import SessionTable
from dragoman.live.sessions.tools import Tools
from dragoman.live.sessions.turns import Turns
from dragoman.observability import get_logger, yielding
from dragoman.randomness import Secrets, is_same, token_hash

log = get_logger("dragoman.sessions")

TICK_SECONDS = 0.5
CHECK_SECONDS = 5.0
RENEW_SECONDS = 10.0
"""How often an instance says that it still owns its sessions' records."""

_RETRY_MS = 1000
_TAKE_TRIES = 5
"""How often a session is asked for that changes hands between reading its record and taking it."""


class Sessions(SessionTable):
    """The sessions of this instance, from their opening to their end or to another instance."""

    def __init__(self, tools: Tools, instance_id: InstanceId, secrets: Secrets) -> None:
        super().__init__(tools.clock)
        self._tools = tools
        self._instance_id = instance_id
        self._secrets = secrets
        self._to_forget: dict[SessionId, SessionOwner] = {}
        """Sessions that are over and whose records are still kept, with their last owners."""
        self._resuming = Turns(tools.watch)
        self._renewal = Renewal(
            self, tools.records, tools.clock, round(RENEW_SECONDS / TICK_SECONDS)
        )
        self._drained: asyncio.Event | None = None
        """Set when no session is left; None while new ones may come."""

    async def open(self, init: SessionInit, tenant: TenantId, link: ClientLink) -> Session:
        """Open a session, or go on with the one the resume_token is for."""
        self._check_takes_sessions()
        if init.resume_token is not None:
            resumed = await self._resume(init, tenant, link)
            if resumed is not None:
                return resumed
        check_session_init(init)
        self._check_room()
        session_id = SessionId(new_id(self._secrets.source, "s"))
        secret = self._secrets.token()
        owner = SessionOwner(self._instance_id, link.id, 1)
        record = SessionRecord(session_id, tenant, token_hash(secret), _without_token(init), owner)
        await self._check_tenant(tenant, session_id)
        session = self._enter(record)
        try:
            await self._tools.records.create(record)
            self._check_takes_sessions()
        except BaseException:
            self._over(session)
            raise
        session.attach(link, record)
        self.heard(session)
        self._ack(session, f"{session_id}.{secret}", resumed=False)
        return session

    async def run(self) -> None:
        """Find clients that fell silent, and end sessions whose client did not come back."""
        checked_at = self._tools.clock.monotonic()
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                await self._time_out_silent(self._tools.rules.heartbeat_timeout_seconds)
                await _unless_down("end", self._end_gone())
                await self._forget_records()
                now = self._tools.clock.monotonic()
                if now - checked_at >= CHECK_SECONDS:
                    checked_at = now
                    await _unless_down("look for lost jobs", self._look_for_lost_jobs())
                if self._tools.peers is not None:
                    await _unless_down("renew", self._renewal.turn())
        finally:
            for session in self:
                session.stop()

    # --- other instances -------------------------------------------------------------------------

    async def taken(self, session_id: SessionId, epoch: int) -> None:
        """Another instance says that it owns a session since this epoch."""
        session = self._open.get(session_id)
        if session is not None and session.owner.epoch < epoch:
            await session.check_hold()

    async def drain(self) -> None:
        """Send every client on to another instance, once it has been told what is under way."""
        self._drained = asyncio.Event()
        async for session in yielding(self, self._tools.clock):
            session.drain()
        if self._open:
            await self._drained.wait()

    async def _look_for_lost_jobs(self) -> None:
        async for session in yielding(self, self._tools.clock):
            await session.look_for_lost_jobs()

    async def _end_gone(self) -> None:
        gone = self._gone_for(self._tools.rules.resume_grace_seconds)
        async for session_id in yielding(gone, self._tools.clock):
            session = self._open.get(session_id)
            if session is None or session.link is not None:
                self._gone.pop(session_id, None)
                continue
            since = self._gone.get(session_id)
            if self._tools.peers is not None and await self._is_elsewhere(session):
                continue
            # The client may have come back while that was asked, or is just about to.
            if self._gone.get(session_id) == since and session_id not in self._resuming:
                log.info("session_abandoned", session_id=session_id)
                await session.abandon()

    async def _is_elsewhere(self, session: Session) -> bool:
        """Whether another instance owns the session by now; its jobs are none of ours then."""
        return bool(await self._tools.records.renew((session.holding,))) and (
            not await session.check_hold() and session.handed_on
        )

    async def _forget_records(self) -> None:
        """Forget sessions that are over; those that cannot be forgotten now, at the next tick."""
        async for session_id, owner in yielding(self._next_to_forget(), self._tools.clock):
            try:
                if not await self._tools.records.forget(session_id, owner):
                    await self._forget_unheard_take(session_id)
            except errors.DependencyDown as down:
                self._to_forget[session_id] = owner
                log.warning_limited(
                    "session_not_forgotten", key="forget", every_seconds=10, error=down.message
                )
                return

    def _next_to_forget(self) -> Iterator[tuple[SessionId, SessionOwner]]:
        while self._to_forget:
            yield self._to_forget.popitem()

    async def _forget_unheard_take(self, session_id: SessionId) -> None:
        """A resume raised the epoch, and the answer was lost: the record is still this one's."""
        record = await self._tools.records.read(session_id)
        if record is None or session_id in self._open:
            return
        if record.owner.instance_id == self._instance_id:
            await self._tools.records.forget(session_id, record.owner)

    async def _resume(
        self, init: SessionInit, tenant: TenantId, link: ClientLink
    ) -> Session | None:
        session_id = SessionId((init.resume_token or "").rpartition(".")[0])
        async with self._resuming.turn(session_id):
            return await self._resume_alone(session_id, init, tenant, link)

    async def _resume_alone(
        self, session_id: SessionId, init: SessionInit, tenant: TenantId, link: ClientLink
    ) -> Session | None:
        """Become the session's owner, and go on with it as it is here or as its record says."""
        token = init.resume_token or ""
        session = self._open.get(session_id)
        taken: Taken | ChangedHands | None = ChangedHands()
        for _ in range(_TAKE_TRIES):
            record = await self._find_record(session_id, session)
            if record is None or record.tenant != tenant:
                return None
            if not is_same(record.secret_hash, token_hash(token.rpartition(".")[2])):
                return None
            if session is not None:
                session.expect(link.id)
            else:
                self._check_room()
            taken = await self._tools.records.take(
                session_id, self._instance_id, link.id, epoch=record.owner.epoch
            )
            if not isinstance(taken, ChangedHands):
                break
        if taken is None:
            return None
        if isinstance(taken, ChangedHands):
            raise errors.DependencyDown(
                f"Session {session_id} is resumed over several connections at once; use one."
            )
        if session is not None and session.state is SessionState.OVER and not session.handed_on:
            return None
        if session is not None and not session.was_held_by(taken.before):
            session.hand_on()
        if session is None or session.handed_on:
            return await self._take_up(taken, init, link)
        self._resumed(session, taken.record, token, link)
        await session.go_on(init.last_delivery_seq)
        return session

    async def _find_record(
        self, session_id: SessionId, session: Session | None
    ) -> SessionRecord | None:
        """The record that a client wants to go on with; one that lost something is made whole."""
        record = await self._tools.records.read(session_id)
        if session is not None:
            if self._tools.peers is not None and (record is None or session.is_newer_than(record)):
                await session.check_hold(returning=True)
                record = await self._tools.records.read(session_id)
            return record
        alone = self._tools.peers is None
        return None if alone or session_id in self._to_forget else record

    async def _take_up(self, taken: Taken, init: SessionInit, link: ClientLink) -> Session | None:
        """Go on with a session that another instance held, or this one before it let go.

        None when its record is of a time before what the client has heard: nothing can go on there.
        """
        peers, has_upto = self._tools.peers, init.last_delivery_seq
        record = taken.record
        if is_behind(record, has_upto):
            log.warning("session_record_too_old", session_id=record.session_id)
            self._to_forget[record.session_id] = record.owner
            return None
        if peers is not None and taken.before.instance_id != self._instance_id:
            peers.taken(record.session_id, taken.before, record.owner)
        found = await read_jobs(record, has_upto, self._tools)
        self._check_takes_sessions()
        session = self._enter(record)
        if self._tools.tenants is not None:
            self._tools.tenants.adopt(session.tenant, session.session_id)
        session.take_up(found, has_upto)
        self._resumed(session, record, init.resume_token or "", link)
        await session.go_on(has_upto)
        await session.take_up_jobs(found)
        await _unless_down("release", session.release_heard(has_upto))
        return session

    def _resumed(
        self, session: Session, record: SessionRecord, token: str, link: ClientLink
    ) -> None:
        self._gone.pop(session.session_id, None)
        session.attach(link, record)
        self.heard(session)
        self._ack(session, token, resumed=True)

    def _check_takes_sessions(self) -> None:
        if self._drained is not None:
            raise errors.ServerDraining("This server is shutting down; ask another one.")

    def _check_room(self) -> None:
        if len(self._open) >= self._tools.rules.max_sessions:
            raise errors.RateLimited(
                "This server has as many sessions as it may; try again later, or another server.",
                retry_after_ms=_RETRY_MS,
            )

    async def _check_tenant(self, tenant: TenantId, session_id: SessionId) -> None:
        limit = self._tools.rules.sessions_per_tenant
        if not limit:
            return
        if self._tools.tenants is not None:
            await self._tools.tenants.acquire(tenant, session_id)
        elif self._by_tenant[tenant] >= limit:
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

    def _enter(self, record: SessionRecord) -> Session:
        session = Session(record, self._tools, self._over, self._renewal.hurry)
        self._add(session)
        self._tools.metrics.sessions.set(len(self._open))
        return session

    def _over(self, session: Session) -> None:
        """A session has come to its end, or goes on elsewhere."""
        if not self._remove(session):
            return
        self._tools.dispatcher.routes.forget(session.session_id)
        self._tools.metrics.sessions.set(len(self._open))
        if self._drained is not None and not self._open:
            self._drained.set()
        tenants = self._tools.tenants
        if session.handed_on:
            if tenants is not None:
                tenants.hand_on(session.tenant, session.session_id)
            return
        if tenants is not None:
            tenants.release(session.tenant, session.session_id)
        self._to_forget[session.session_id] = session.owner
        self._tools.dispatcher.spawn(self._forget_records())


async def _unless_down(what: str, work: Awaitable[None]) -> None:
    """Do something that no task waits for; a keeper that is away does not stop the rest."""
    try:
        await work
    except errors.DependencyDown as down:
        log.warning_limited(
            "sessions_not_seen_to", key=what, every_seconds=10, what=what, error=down.message
        )


def _without_token(init: SessionInit) -> SessionInit:
    """What is stored of the init; the token is the client's alone."""
    return msgspec.structs.replace(init, resume_token=None)
