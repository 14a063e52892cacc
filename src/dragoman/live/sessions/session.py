"""One conversation: what comes in becomes jobs, what comes back goes out in order.

A session's state changes on its event loop, between awaits; nothing here needs a lock. Its
messages are handled one after another, results arrive whenever they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from dragoman import errors
from dragoman.ids import ConnectionId, JobId
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import (
    AudioChunk,
    Error,
    ServerHeartbeat,
    SessionCloseAck,
    SessionState,
    Utterance,
)
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.departures import Departures
from dragoman.live.sessions.hold import Hold
from dragoman.live.sessions.intake import Intake
from dragoman.live.sessions.open_index import OpenIndex
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.pressure import Pressure
from dragoman.live.sessions.record import Holding, SessionOwner, SessionRecord
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import Timeline
from dragoman.live.sessions.tools import Client, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")


class Session:
    """A conversation with one client, over one connection after another."""

    def __init__(
        self,
        record: SessionRecord,
        tools: Tools,
        on_over: Callable[[Session], None],
        on_doubt: Callable[[], None],
    ) -> None:
        """A session as its record says; `take_up` follows when an earlier owner wrote that."""
        self.session_id = record.session_id
        self.tenant = record.tenant
        self.init = record.init
        self.state = SessionState.DISCONNECTED
        self.handed_on = False
        """Another instance holds the session, or may have it: it is over here, but only here."""
        self.last_heard = tools.clock.monotonic()
        self._start = record
        self._tools = tools
        self._on_over = on_over
        self._client = client = Client(record.owner)
        init = record.init
        timeline = Timeline(self.session_id, client.send, tools.clock) if init.ui_events else None
        spans = Spans(self.session_id, init, tools.tracing, tools.clock) if tools.tracing else None
        self._spans = spans
        self._hold = hold = Hold(
            record,
            tools.records,
            client,
            compose=self.describe,
            on_lost=self._lost,
            on_restored=self._restored,
            on_doubt=on_doubt,
        )
        self._arrivals = Arrivals(record, tools, client, hold, timeline, self._moved, spans)
        self._open_index = OpenIndex(record, tools, hold, self._arrivals)
        self._departures = Departures(
            record, tools, client, self._open_index, self._arrivals, spans
        )
        self._intake = Intake(record, tools, self._departures, self._arrivals, timeline, spans)
        self._pressure = Pressure(tools.rules.max_inflight)
        self._draining = False
        self._rest_is_cut = False
        """While draining: what was said so far is in utterances."""
        self._kept_bytes = 0
        """What the process's budget was charged for this session."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def link(self) -> ClientLink | None:
        return self._client.link

    @property
    def owner(self) -> SessionOwner:
        """The connection that speaks for it, or was the last to do so."""
        return self._client.owner

    @property
    def holding(self) -> Holding:
        """The session as it is named to the keeper of its record."""
        return self._hold.holding

    @property
    def is_doubtful(self) -> bool:
        """Whether its record may lack something that was stored; `check_hold` sees to it."""
        return self._hold.doubtful

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that is in no stored job."""
        return self._open_index.next_chunk_seq

    @property
    def tgt_langs(self) -> tuple[str, ...]:
        """The languages it is translated into; both, where it goes either way."""
        return self.init.heard

    @property
    def next_utterance_index(self) -> int:
        return self._intake.next_index

    @property
    def in_flight(self) -> int:
        """Utterances not yet delivered or announced for every target."""
        return self._arrivals.in_flight

    def describe(self) -> SessionRecord:
        """The session's record as it should be stored now."""
        stored = msgspec.structs.replace(
            self._start,
            owner=self._client.owner,
            revision=self._hold.holding.seen,
            next_chunk_seq=self._open_index.next_chunk_seq,
            half_sample=self._open_index.half_sample,
            next_utterance_index=self._open_index.next_utterance_index,
        )
        return self._arrivals.describe(stored, self._departures.job_of)

    # --- its connection --------------------------------------------------------------------------

    def expect(self, connection_id: ConnectionId) -> None:
        """A connection asks to speak for the session."""
        self._client.connections.add(connection_id)

    def was_held_by(self, owner: SessionOwner) -> bool:
        """Whether such an owner is this very session, without another owner in between."""
        return self._client.is_spoken_for_by(owner)

    def attach(self, link: ClientLink, record: SessionRecord) -> None:
        """The client speaks over this connection from now on, which owns the record."""
        before, self._client.link = self._client.link, link
        self._hold.own(record.owner, record.revision)
        self._client.connections = {record.owner.connection_id}
        if before is not None:
            before.superseded()
        if self.state is SessionState.DISCONNECTED:
            self.state = SessionState.ACTIVE
        self._intake.resume()
        self._arm()

    async def go_on(self, last_delivery_seq: int) -> None:
        """The client is back, and has everything up to a number."""
        self._arrivals.send_again(last_delivery_seq)
        # What the client was told before may have been lost with its connection.
        self._pressure = Pressure(self._tools.rules.max_inflight)
        self._press()
        self._finish_if_done()
        await self.acknowledge(last_delivery_seq)

    def detach(self, link: ClientLink) -> bool:
        """The connection is gone; False when the client has another one already."""
        if self._client.link is not link or self.state is SessionState.OVER:
            return False
        self._client.link = None
        if self.state is SessionState.ACTIVE:
            self.state = SessionState.DISCONNECTED
        self._intake.suspend()
        return True

    # --- what the client says --------------------------------------------------------------------

    async def audio(self, chunk: AudioChunk, now: float) -> None:
        """A piece of audio, to be cut into utterances."""
        self._check_open()
        if self._draining:
            return
        if await self._intake.audio(chunk):
            self._press()
        within = self._keep_account()
        kept = self._intake.buffered_bytes + self._departures.waiting_bytes
        if self.link is not None and (not within or kept > self._tools.rules.queue_bytes):
            self.link.overrun("more audio came than can be kept; wait for results")
        self._arm()

    async def utterance(self, message: Utterance, now: float) -> None:
        """A whole utterance."""
        self._check_open()
        if not self._draining and await self._intake.utterance(message):
            self._keep_account()
            self._press()

    async def heartbeat(self, last_delivery_seq: int | None) -> None:
        """The client is there, and has everything up to a number."""
        if last_delivery_seq is not None:
            await self.acknowledge(last_delivery_seq)
        self._client.send(ServerHeartbeat(self.next_chunk_seq))

    async def acknowledge(self, upto: int) -> None:
        """Deliveries arrived: their payloads may go."""
        try:
            await self._arrivals.acknowledge(upto)
        except errors.DependencyDown as down:
            # Payloads that are not released now go when their retention ends.
            log.warning_limited(
                "acknowledgement_not_stored", key="ack", every_seconds=10, error=down.message
            )
        self._keep_account()

    async def close(self) -> None:
        """The speaker is done: the last cut is made, and the end comes after the last result."""
        if self.state in (SessionState.CLOSING, SessionState.OVER) or self._draining:
            return
        self.state = SessionState.CLOSING
        await self._intake.close()
        self._press()
        self._finish_if_done()

    # --- one owner after another -----------------------------------------------------------------

    def take_up(self, found: Mapping[JobId, JobRecord], has_upto: int) -> None:
        """Go on where an earlier owner left off, with what the ledger knows of its jobs."""
        self._arrivals.take_up(self._start, found, has_upto)

    async def release_heard(self, has_upto: int) -> None:
        """What the client heard from the earlier owner is acknowledged by its coming back."""
        await self._arrivals.release_heard(self._start, has_upto)

    def is_newer_than(self, record: SessionRecord) -> bool:
        """Whether the record lacks what is known here to have been stored in it."""
        return self._hold.is_newer_than(record)

    async def take_up_jobs(self, found: Mapping[JobId, JobRecord]) -> None:
        """The client is there: bring it what has ended, and wait for the rest."""
        await self._departures.take_up(self._start.open_jobs, found)
        self._arm()

    async def check_hold(self, *, returning: bool = False) -> bool:
        """Find out whether the session is still this instance's; if not, it is let go of.

        If it is, its record is made whole, where its client is here or just returning.
        """
        if self.state is SessionState.OVER:
            return False
        return await self._hold.regain(returning=returning)

    def hand_on(self) -> None:
        """Let go of the session: its jobs go on, and another instance brings their results."""
        if self.state is SessionState.OVER:
            return
        self.handed_on = True
        link = self.link
        self._departures.hand_on()
        self._over()
        if link is not None:
            link.superseded()

    def drain(self) -> None:
        """Take in nothing more; once all that was said has been delivered, the client is sent on.

        What it says from now on it says again to the next instance.
        """
        if self.state is SessionState.OVER:
            return
        self._draining = True
        if self.link is None:
            # The client still has what it said last, and is not there to hear of it.
            self._finish_if_done()
        else:
            self._tools.dispatcher.run(self._carry_out_rest())

    async def _carry_out_rest(self) -> None:
        """Cut the sentence that is being spoken, and send it off."""
        try:
            await self._intake.close()
        finally:
            self._rest_is_cut = True
        self._arm()
        self._finish_if_done()

    def _send_on_if_done(self) -> None:
        link = self.link
        if link is not None and not (self._rest_is_cut and self._arrivals.all_sent):
            return
        self.handed_on = True
        self._departures.hand_on()
        self._over()
        if link is not None:
            link.draining()

    def _lost(self, owner: SessionOwner) -> None:
        log.info("session_handed_on", session_id=self.session_id, to=owner.instance_id)
        self.hand_on()

    def _restored(self) -> None:
        """What forgot the record may have forgotten the jobs too."""
        self._tools.dispatcher.spawn(self._departures.look_for_lost_jobs(driven_too=True))

    # --- time and bounds -------------------------------------------------------------------------

    async def look_for_lost_jobs(self) -> None:
        """Find jobs without a driver: ended unheard of, or gone from the ledger."""
        await self._departures.look_for_lost_jobs()
        self._arm()

    async def _moved(self) -> None:
        """Something went out to the client: there may be room for what waits, or all is done."""
        if self.state is SessionState.OVER:
            return
        if len(self._departures):
            await self._departures.go()
        self._press()
        self._keep_account()
        self._arm()
        self._finish_if_done()

    async def _due(self) -> None:
        try:
            if not self._draining and await self._intake.due():
                self._press()
            if not self._departures.departing:
                await self._open_index.store_rest()
            await self._arrivals.due()
        finally:
            self._arm()

    def _arm(self) -> None:
        """Wake at the next deadline. One that moves later costs nothing."""
        spoken = self._intake.deadline if not self._draining else None
        times = [at for at in (spoken, self._arrivals.deadline) if at is not None]
        if not times or self.state is SessionState.OVER:
            return
        at = min(times)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        delay = max(0.0, at - self._tools.clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
        self._timer_at = at

    def _wake(self) -> None:
        self._timer = None
        if self.state is not SessionState.OVER:
            self._tools.dispatcher.spawn(self._due())

    def _press(self) -> None:
        message = self._pressure.now(self.in_flight)
        if message is not None:
            self._client.send(message)

    def _keep_account(self) -> bool:
        """Charge the process's budget for what this session keeps; False when it is too much."""
        if self.state is SessionState.OVER:
            return True
        kept = (
            self._intake.buffered_bytes
            + self._departures.waiting_bytes
            + self._departures.working_bytes
            + self._arrivals.buffered_bytes
        )
        within = self._tools.budget.change(kept - self._kept_bytes)
        self._kept_bytes = kept
        return within

    def _check_open(self) -> None:
        if self.state is not SessionState.ACTIVE:
            raise errors.SessionClosed("The session is closing; open another one.")

    # --- the end ---------------------------------------------------------------------------------

    async def abandon(self) -> None:
        """The client did not come back: its jobs are cancelled, its open audio is dropped."""
        if self.state is SessionState.OVER:
            return
        open_audio = self._intake.buffered_bytes > 0
        self._over()
        dropped = open_audio + await self._departures.stop()
        if dropped:
            self._tools.metrics.audio_ignored.labels("session_gone").inc(dropped)
        # A job that was just being made has left a trace of the session with dispatch.
        self._tools.dispatcher.routes.forget(self.session_id)

    async def end(self) -> None:
        """End it now, by order: the client is told and closed, and its jobs are cancelled."""
        link = self.link
        if link is not None:
            says = f"Session {self.session_id} was ended by order of its tenant or an operator."
            link.send(Error(errors.SessionClosed.code, says))
            link.ended()
        await self.abandon()

    def stop(self) -> None:
        """The server stops: nothing more becomes due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish_if_done(self) -> None:
        """End a closing session once everything was sent, and send a draining one's client on.

        While its client is away it waits: the client may come back for its last results.
        """
        link = self.link
        if self.state is SessionState.CLOSING and link is not None and self._arrivals.all_sent:
            link.send(SessionCloseAck())
            link.finished()
            self._over()
        elif self._draining and self.state is not SessionState.OVER:
            self._send_on_if_done()

    def _over(self) -> None:
        self.state = SessionState.OVER
        self.stop()
        if not self.handed_on and (kept := self._arrivals.results_kept()):
            # No client will come for them.
            self._tools.dispatcher.spawn(self._tools.ledger.release(kept))
        self._arrivals.stop()
        self._tools.budget.change(-self._kept_bytes)
        self._kept_bytes = 0
        self._client.link = None
        if self._spans is not None:
            self._spans.close()
        self._on_over(self)
