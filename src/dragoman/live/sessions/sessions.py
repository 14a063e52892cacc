"""Every session of this instance: opening, resuming, and letting go of those that are gone."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Iterator
from heapq import heappop, heappush, nsmallest

import msgspec

from dragoman import errors
from dragoman.ids import InstanceId, SessionId, TenantId, new_id, shard_in
from dragoman.live.protocol import (
    AUTO,
    PROTOCOL_VERSION,
    Mode,
    SessionInit,
    SessionInitAck,
    SessionState,
    Vad,
    check_session_init,
    normal_language,
)
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.renewal import Renewal
from dragoman.live.sessions.resume import Turns, is_behind
from dragoman.live.sessions.session import Session, SessionContext
from dragoman.live.sessions.voice import check_can_go_on, with_voice_activity
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r
from dragoman.observability import get_logger, yielding
from dragoman.randomness import Secrets, is_same, token_hash


class LanguageUsage:
    """How many open sessions have each language as a source, and how many as a target."""

    def __init__(self) -> None:
        self.as_source: Counter[str] = Counter()
        self.as_target: Counter[str] = Counter()
        self._spelling: dict[str, str] = {}
        """How the first of the sessions that use a language now wrote it."""

    def opened(self, init: SessionInit) -> None:
        self._add(init, 1)

    def closed(self, init: SessionInit) -> None:
        self._add(init, -1)

    def _add(self, init: SessionInit, step: int) -> None:
        sources, targets = languages_of(init)
        for counts, languages in ((self.as_source, sources), (self.as_target, targets)):
            for tag in languages:
                language = self._spelling.setdefault(normal_language(tag), tag)
                counts[language] += step
                if not counts[language]:
                    # Names come from clients: one that no session uses must not stay.
                    del counts[language]
                    if language not in self.as_source and language not in self.as_target:
                        del self._spelling[normal_language(tag)]


def languages_of(init: SessionInit) -> tuple[set[str], set[str]]:
    """The languages a session may speak, and those it hears; both, where it goes either way."""
    if init.mode is Mode.TWO_WAY_AUTO:
        both = {language for language in (init.lang_a, init.lang_b) if language}
        return both, both
    sources = set(init.auto_langs) if init.src_lang == AUTO else {init.src_lang}
    return sources, set(init.targets)


log = get_logger("dragoman.sessions")

TICK_SECONDS = 0.5
_RETRY_MS = 1000
_TAKE_TRIES = 5
"""How often a session is asked for that changes hands between reading its record and taking it."""


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
        self._silero_sessions = 0
        self.languages = LanguageUsage()
        self.changes = 0
        """How often a session came, went, lost its client or got it back."""
        self.recent = context.recent
        self._looks: list[tuple[float, SessionId]] = []
        """When to see whether a connected session's client has fallen silent; one entry each. By
        name: a session that ends before its look is let go of."""
        self._looked_at: set[SessionId] = set()
        """Those with an entry."""
        self._gone: OrderedDict[SessionId, float] = OrderedDict()
        """Disconnected ones, and since when."""
        self._drained: asyncio.Event | None = None
        """Set when no session is left; None while new ones may come."""
        # Where instances share records.
        self._shared = context.shared
        self._resuming = Turns()
        self._to_forget: dict[SessionId, r.SessionOwner] = {}
        """Sessions that are over and whose records are still kept, with their last owners."""
        self._renewal: Renewal | None = None
        if context.shared is not None:
            turns = max(1, round(context.renew_seconds / TICK_SECONDS))
            self._renewal = Renewal(self.__iter__, context.shared, context.clock, turns)

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
            session = await self._find_resumed(init, init.resume_token, tenant, link)
            if session is not None:
                return session
        check_session_init(init)
        init = with_voice_activity(init, self._rules.voice)
        self._check_room()
        self._check_silero(init)
        session_id = SessionId(new_id(self._secrets.source, "s"))
        secret = self._secrets.token()
        # The token is the client's alone.
        init = msgspec.structs.replace(init, resume_token=None)
        await self._check_tenant(tenant, session_id)
        if self._shared is None:
            session = Session(
                session_id, tenant, init, token_hash(secret), self._context, self._over
            )
            self._enter(session)
        else:
            owner = r.SessionOwner(self._instance_id, link.id, 1)
            record = r.StoredSession(session_id, tenant, token_hash(secret), init, owner)
            session = await self._begin(record, self._shared)
        session.attach(link)
        self._connected(session)
        self._ack(session, f"{session_id}.{secret}", resumed=False)
        return session

    async def _begin(self, record: r.StoredSession, shared: SharedLedger) -> Session:
        """A session whose record is stored before its client hears of it."""
        session = self._enter(self._recorded(record))
        try:
            await shared.begin_session(record)
            self._check_takes_sessions()
        except BaseException:
            self._over(session)
            raise
        return session

    def _recorded(self, record: r.StoredSession) -> Session:
        """The session of a record."""
        return Session(
            record.session_id,
            record.tenant,
            record.init,
            record.secret_hash,
            self._context,
            self._over,
            record,
            self._renewal.hurry if self._renewal is not None else None,
        )

    def _enter(self, session: Session) -> Session:
        self._open[session.session_id] = session
        self._by_tenant[session.tenant] += 1
        self._silero_sessions += session.init.vad is Vad.SILERO
        self.languages.opened(session.init)
        self.changes += 1
        self._context.metrics.sessions.set(len(self._open))
        return session

    def _connected(self, session: Session) -> None:
        session.last_heard = self._clock.monotonic()
        if session.session_id not in self._looked_at:
            self._looked_at.add(session.session_id)
            self._look_later(session)

    def disconnected(self, session: Session, link: ClientLink) -> None:
        """A client's connection is gone; it may come back for a while."""
        if session.detach(link) and self._open.get(session.session_id) is session:
            self._gone[session.session_id] = self._clock.monotonic()
            self.changes += 1

    async def _find_resumed(
        self, init: SessionInit, token: str, tenant: TenantId, link: ClientLink
    ) -> Session | None:
        """The session that goes on; None: it is not known, or the token is not its own."""
        name, _, secret = token.rpartition(".")
        session_id = SessionId(name)
        if self._shared is not None:
            if shard_in(session_id) is None:
                return None
            async with self._resuming.turn(session_id):
                return await self._resume_shared(session_id, secret, init, tenant, link)
        session = self._open.get(session_id)
        if session is None or session.tenant != tenant:
            return None
        if not is_same(session.secret_hash, token_hash(secret)):
            return None
        self._resumed(session, init, link)
        session.go_on(init.last_delivery_seq)
        return session

    def _resumed(self, session: Session, init: SessionInit, link: ClientLink) -> None:
        self._gone.pop(session.session_id, None)
        session.attach(link)
        self._connected(session)
        self.changes += 1
        self._ack(session, init.resume_token or "", resumed=True)

    def _ack(self, session: Session, token: str, *, resumed: bool) -> None:
        if session.link is None:
            return
        session.link.send(
            SessionInitAck(
                session_id=session.session_id,
                resume_token=token,
                resumed=resumed,
                next_chunk_seq=session.next_chunk_seq,
                next_utterance_index=session.next_stored_index,
                protocol_version=PROTOCOL_VERSION,
                instance_id=self._instance_id,
                heartbeat_interval_ms=int(self._rules.heartbeat_interval_seconds * 1000),
                listen_token=session.listen_token,
            )
        )

    def _check_takes_sessions(self) -> None:
        if self._drained is not None:
            raise errors.ServerDraining("This server is shutting down; ask another one.")

    def _check_room(self) -> None:
        if len(self._open) >= self._rules.max_sessions:
            raise errors.RateLimited(
                "This server has as many sessions as it may; try again later, or another server.",
                retry_after_ms=_RETRY_MS,
            )

    def _check_silero(self, init: SessionInit) -> None:
        most = self._rules.voice.max_silero_sessions
        if init.vad is Vad.SILERO and self._silero_sessions >= most:
            raise errors.RateLimited(
                f"This server has {most} sessions with vad `silero`, as many as it may; use "
                "`webrtc`, try again later, or another server.",
                retry_after_ms=_RETRY_MS,
            )

    async def _check_tenant(self, tenant: TenantId, session_id: SessionId) -> None:
        limit = self._rules.sessions_per_tenant
        if not limit:
            return
        if self._context.tenants is not None:
            await self._context.tenants.acquire(tenant, session_id)
        elif self._by_tenant[tenant] >= limit:
            raise errors.RateLimited(
                f"Tenant {tenant!r} has as many sessions as it may; close one, or try again later.",
                retry_after_ms=_RETRY_MS,
            )

    # --- other instances -------------------------------------------------------------------------

    async def taken(self, session_id: SessionId, epoch: int) -> None:
        """Another instance says that it owns a session since this epoch."""
        session = self._open.get(session_id)
        writer = session.writer if session is not None else None
        if session is not None and writer is not None and writer.owner.epoch < epoch:
            await session.check_hold()

    async def _resume_shared(
        self,
        session_id: SessionId,
        secret: str,
        init: SessionInit,
        tenant: TenantId,
        link: ClientLink,
    ) -> Session | None:
        """Become the session's owner, and go on with it as it is here or as its record says."""
        shared = self._shared
        assert shared is not None, "records are shared"
        session = self._open.get(session_id)
        taken: r.TakenSession | r.ChangedHands | None = r.ChangedHands()
        for _ in range(_TAKE_TRIES):
            record = await self._find_record(session_id, session, shared)
            if record is None or record.tenant != tenant:
                return None
            if not is_same(record.secret_hash, token_hash(secret)):
                return None
            if session is not None and session.writer is not None:
                session.writer.expect(link.id)
            else:
                check_can_go_on(record.init, session_id)
                self._check_room()
                self._check_silero(record.init)
            taken = await shared.take_session(
                session_id, self._instance_id, link.id, epoch=record.owner.epoch
            )
            if not isinstance(taken, r.ChangedHands):
                break
        if taken is None:
            return None
        if isinstance(taken, r.ChangedHands):
            raise errors.DependencyDown(
                f"Session {session_id} is resumed over several connections at once; use one."
            )
        return await self._go_on(session, taken, init, link)

    async def _find_record(
        self, session_id: SessionId, session: Session | None, shared: SharedLedger
    ) -> r.StoredSession | None:
        """The record that a client wants to go on with; one that lost something is made whole."""
        record = await shared.read_session(session_id)
        if session is None or session.writer is None:
            return None if session_id in self._to_forget else record
        if record is None or session.writer.is_newer_than(record):
            await session.check_hold(returning=True)
            record = await shared.read_session(session_id)
        return record

    async def _go_on(
        self, session: Session | None, taken: r.TakenSession, init: SessionInit, link: ClientLink
    ) -> Session | None:
        """This connection owns the record: go on here, or take up what another owner left."""
        if session is not None and session.writer is not None:
            if session.state is SessionState.OVER and not session.handed_on:
                return None
            # A client that heard more than was said here was elsewhere, though no record tells.
            stayed = session.writer.is_ours(taken.before) and session.has_said(
                init.last_delivery_seq
            )
            if not stayed:
                session.hand_on()
            if not session.handed_on:
                session.writer.own(taken.session.owner, taken.session.revision)
                self._resumed(session, init, link)
                session.go_on(init.last_delivery_seq)
                return session
        return await self._take_up(taken, init, link)

    async def _take_up(
        self, taken: r.TakenSession, init: SessionInit, link: ClientLink
    ) -> Session | None:
        """Go on with a session that another instance held, or this one before it let go.

        None when its record is of a time before what the client has heard: nothing can go on there.
        """
        context, record, has_upto = self._context, taken.session, init.last_delivery_seq
        watching = context.watching
        assert watching is not None, "where records are shared, jobs elsewhere are watched"
        if is_behind(record, has_upto):
            log.warning("session_record_too_old", session_id=record.session_id)
            self._to_forget[record.session_id] = record.owner
            return None
        if context.peers is not None and taken.before.instance_id != self._instance_id:
            context.peers.taken(record.session_id, taken.before, record.owner)
        delivered = [sent.delivery.job_id for sent in record.unacknowledged]
        ended = await watching.find_ended([job_id for job_id in delivered if job_id is not None])
        past = b""
        if self._rules.past.hold_for(record.tenant) and self._shared is not None:
            past = await self._shared.read_past(record.session_id)
        self._check_takes_sessions()
        session = self._enter(self._recorded(record))
        if session.past is not None:
            session.past.read(past)
        if context.tenants is not None:
            context.tenants.adopt(session.tenant, session.session_id)
        session.take_up(record, ended, has_upto)
        self._resumed(session, init, link)
        session.go_on(has_upto)
        session.take_up_jobs(record, watching)
        return session

    async def _is_elsewhere(self, session: Session, shared: SharedLedger) -> bool:
        """Whether another instance owns the session by now; its jobs are none of ours then."""
        if session.writer is None or not await shared.renew_sessions((session.writer.holding,)):
            return False
        return not await session.check_hold() and session.handed_on

    async def _forget_records(self) -> None:
        """Forget sessions that are over; those that cannot be forgotten now, at the next tick."""
        shared = self._shared
        assert shared is not None, "records are shared"
        async for session_id, owner in yielding(self._next_to_forget(), self._clock):
            try:
                if not await shared.end_session(session_id, owner):
                    await self._forget_unheard_take(session_id, shared)
            except errors.DependencyDown as down:
                self._to_forget[session_id] = owner
                log.warning_limited(
                    "session_not_forgotten", key="forget", every_seconds=10, error=down.message
                )
                return

    def _next_to_forget(self) -> Iterator[tuple[SessionId, r.SessionOwner]]:
        while self._to_forget:
            yield self._to_forget.popitem()

    async def _forget_unheard_take(self, session_id: SessionId, shared: SharedLedger) -> None:
        """A resume raised the epoch, and the answer was lost: the record is still this one's."""
        record = await shared.read_session(session_id)
        if record is None or session_id in self._open:
            return
        if record.owner.instance_id == self._instance_id:
            await shared.end_session(session_id, record.owner)

    # --- time ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Find clients that fell silent, and end sessions whose client did not come back."""
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                now = self._clock.monotonic()
                await self._cut_off_silent(now)
                await _unless_down("end", self._end_gone(now))
                if self._renewal is not None:
                    await self._forget_records()
                    await _unless_down("renew", self._renewal.turn())
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

    async def _cut_off_silent(self, now: float) -> None:
        async for session in yielding(self._silent(now), self._clock):
            if session.link is not None:
                session.link.timed_out()

    def _silent(self, now: float) -> Iterator[Session]:
        """Connected sessions whose client has said nothing for too long."""
        timeout, looks = self._rules.heartbeat_timeout_seconds, self._looks
        while looks and looks[0][0] <= now:
            _, session_id = heappop(looks)
            session = self._open.get(session_id)
            if session is None or session.link is None:
                self._looked_at.discard(session_id)
            elif session.last_heard + timeout > now:
                self._look_later(session)
            else:
                self._looked_at.discard(session_id)
                yield session

    def _look_later(self, session: Session) -> None:
        due = session.last_heard + self._rules.heartbeat_timeout_seconds
        heappush(self._looks, (due, session.session_id))

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
            if self._shared is not None:
                since = self._gone.get(session_id)
                if await self._is_elsewhere(session, self._shared):
                    continue
                # The client may have come back while that was asked, or is just about to.
                if self._gone.get(session_id) != since or session_id in self._resuming:
                    continue
            log.info("session_abandoned", session_id=session_id)
            session.abandon()

    def _over(self, session: Session) -> None:
        """A session has come to its end."""
        session_id = session.session_id
        if self._open.get(session_id) is not session:
            return
        del self._open[session_id]
        self._by_tenant[session.tenant] -= 1
        if not self._by_tenant[session.tenant]:
            del self._by_tenant[session.tenant]
        self._silero_sessions -= session.init.vad is Vad.SILERO
        self.languages.closed(session.init)
        self.changes += 1
        self._gone.pop(session_id, None)
        self._context.metrics.sessions.set(len(self._open))
        if self._drained is not None and not self._open:
            self._drained.set()
        if self._shared is not None:
            self._leave_record(session)

    def _leave_record(self, session: Session) -> None:
        """The record goes with the session, or stays for the instance that has it now."""
        tenants = self._context.tenants
        if session.handed_on:
            if tenants is not None:
                tenants.hand_on(session.tenant, session.session_id)
            return
        if tenants is not None:
            tenants.release(session.tenant, session.session_id)
        if session.writer is not None:
            self._to_forget[session.session_id] = session.writer.owner
            self._context.dispatcher.spawn(self._forget_records())


async def _unless_down(what: str, work: Awaitable[None]) -> None:
    """Do something that no task waits for; a ledger that is away does not stop the rest."""
    try:
        await work
    except errors.DependencyDown as down:
        log.warning_limited(
            "sessions_not_seen_to", key=what, every_seconds=10, what=what, error=down.message
        )
