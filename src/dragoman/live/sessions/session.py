"""One conversation: what comes in becomes jobs, what comes back goes out in order.

A session's state changes on its event loop, between awaits; nothing here needs a lock. Its
messages are handled one after another, results arrive whenever they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dragoman import errors
from dragoman.ids import SessionId, TenantId
from dragoman.live.ledger import JobInput
from dragoman.live.protocol import (
    AUTO,
    AudioChunk,
    ErrorInfo,
    ServerHeartbeat,
    SessionCloseAck,
    SessionInit,
    SessionState,
    UiEventName,
    Utterance,
    check_utterance,
)
from dragoman.live.sessions.arrivals import Arrivals
from dragoman.live.sessions.audio import make_meter
from dragoman.live.sessions.departures import Departures
from dragoman.live.sessions.orders import Speech, targets_for, targets_of, whole_utterance
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.pressure import Pressure
from dragoman.live.sessions.segmenter import Segment, Segmenter
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import Timeline
from dragoman.live.sessions.tools import Client, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")


class Session:
    """A conversation with one client, over one connection after another."""

    def __init__(
        self,
        session_id: SessionId,
        tenant: TenantId,
        init: SessionInit,
        tools: Tools,
        on_over: Callable[[Session], None],
    ) -> None:
        self.session_id = session_id
        self.tenant = tenant
        self.init = init
        self.state = SessionState.DISCONNECTED
        self.last_heard = tools.clock.monotonic()
        self._tools = tools
        self._on_over = on_over
        self._client = Client()
        self._targets = targets_of(init)
        timeline = Timeline(session_id, self._client.send, tools.clock) if init.ui_events else None
        self._timeline = timeline
        spans = Spans(session_id, init, tools.tracing, tools.clock) if tools.tracing else None
        self._spans = spans
        self._arrivals = Arrivals(
            session_id, self._targets, tools, self._client, timeline, self._moved, spans
        )
        self._departures = Departures(
            session_id,
            tenant,
            init,
            tools,
            self._client,
            self._arrivals,
            spans,
            watched=init.ui_events,
        )
        self._pressure = Pressure(tools.rules.max_inflight)
        self._meter = make_meter(init.audio_format, init.sample_rate)
        self._segmenter: Segmenter | None = None
        self._began = 0.0
        """When the utterance that is being spoken began."""
        self._by_utterance = False
        self._next_index = 0
        self._kept_bytes = 0
        """What the process's budget was charged for this session."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def link(self) -> ClientLink | None:
        return self._client.link

    @property
    def epoch(self) -> int:
        return self._client.epoch

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that is in no stored job."""
        return self._departures.next_chunk_seq

    @property
    def tgt_langs(self) -> tuple[str, ...]:
        """The languages it is translated into; both, where it goes either way."""
        two_ways = (self.init.lang_a, self.init.lang_b)
        return self.init.targets or tuple(language for language in two_ways if language)

    @property
    def next_utterance_index(self) -> int:
        return self._next_index

    @property
    def in_flight(self) -> int:
        """Utterances not yet delivered or announced for every target."""
        return self._arrivals.in_flight

    # --- its connection --------------------------------------------------------------------------

    def attach(self, link: ClientLink, epoch: int) -> None:
        """The client speaks over this connection from now on."""
        before, self._client.link, self._client.epoch = self._client.link, link, epoch
        if before is not None:
            before.superseded()
        if self.state is SessionState.DISCONNECTED:
            self.state = SessionState.ACTIVE
        if self._segmenter is not None:
            self._segmenter.resume(self._tools.clock.monotonic())
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
        if self._segmenter is not None:
            self._segmenter.suspend(self._tools.clock.monotonic())
        return True

    # --- what the client says --------------------------------------------------------------------

    async def audio(self, chunk: AudioChunk) -> None:
        """A piece of audio, to be cut into utterances."""
        self._check_open()
        if self._by_utterance:
            raise errors.InvalidMessage(
                "This session sends whole utterances; audio_chunk and utterance do not mix."
            )
        segmenter = self._segmenter
        if segmenter is None:
            segmenter = self._segmenter = Segmenter(self._tools.rules.segments, self._meter)
        now = self._tools.clock.monotonic()
        begins = not segmenter.buffered_bytes
        if begins:
            self._began = now
        segments = segmenter.push(chunk.seq, chunk.payload, chunk.is_final, now)
        if begins and self._timeline is not None and chunk.payload:
            self._timeline.tell(self._next_index, UiEventName.INPUT_STARTED)
        if segments or segmenter.ignored:
            await self._cut(segmenter, segments)
        if self._spans is not None and segmenter.buffered_bytes:
            self._spans.heard(self._next_index)
        within = self._keep_account()
        kept = segmenter.buffered_bytes + self._departures.waiting_bytes
        if self.link is not None and (not within or kept > self._tools.rules.queue_bytes):
            self.link.overrun("more audio came than can be kept; wait for results")
        self._arm()

    async def utterance(self, message: Utterance) -> None:
        """A whole utterance."""
        self._check_open()
        if self._segmenter is not None:
            raise errors.InvalidMessage(
                "This session sends audio chunks; utterance and audio_chunk do not mix."
            )
        index = message.utterance_index
        if index < self._next_index:
            return
        if index > self._next_index:
            raise errors.InvalidMessage(
                f"utterance_index {index} came where {self._next_index} is next; "
                "send them next after next."
            )
        self._by_utterance = True
        self._next_index += 1
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.INPUT_ENDED)
        try:
            self._check(message)
        except errors.DragomanError as error:
            await self._refuse(message, error)
            return
        self._departures.add(whole_utterance(self.init, message))
        self._keep_account()
        await self._departures.go()
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
        if self.state in (SessionState.CLOSING, SessionState.OVER):
            return
        self.state = SessionState.CLOSING
        if self._segmenter is not None:
            now = self._tools.clock.monotonic()
            await self._cut(self._segmenter, self._segmenter.close(now))
        self._finish_if_done()

    async def abandon(self) -> None:
        """The client did not come back: its jobs are cancelled, its open audio is dropped."""
        if self.state is SessionState.OVER:
            return
        open_audio = self._segmenter is not None and self._segmenter.buffered_bytes > 0
        self._over()
        dropped = open_audio + await self._departures.stop()
        if dropped:
            self._tools.metrics.audio_ignored.labels("session_gone").inc(dropped)
        # A job that was just being made has left a trace of the session with dispatch.
        self._tools.dispatcher.routes.forget(self.session_id)

    def stop(self) -> None:
        """The server stops: nothing more becomes due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- from speech to utterances ---------------------------------------------------------------

    async def _cut(self, segmenter: Segmenter, segments: Sequence[Segment]) -> None:
        """Utterances are complete. They get their numbers before anything else can happen."""
        for segment in segments:
            self._tools.metrics.web_task_finalized.labels(segment.cut.value).inc()
            speech = Speech(
                self._next_index,
                self._targets,
                JobInput(audio=self._meter.join(segment.chunks)),
                cut=segment.cut,
                began=self._began,
                next_chunk_seq=segment.next_seq,
            )
            self._began = self._tools.clock.monotonic()
            self._next_index += 1
            if self._timeline is not None:
                self._timeline.tell(speech.index, UiEventName.INPUT_ENDED)
            self._departures.add(speech)
        for reason, count in segmenter.ignored.items():
            self._tools.metrics.audio_ignored.labels(reason).inc(count)
        segmenter.ignored.clear()
        if segments and segmenter.buffered_bytes and self._timeline is not None:
            self._timeline.tell(self._next_index, UiEventName.INPUT_STARTED)
        if segments:
            await self._departures.go()
            self._press()

    def _check(self, message: Utterance) -> None:
        """Refuse an utterance that makes no sense, or that is too much now."""
        check_utterance(message)
        if message.src_lang == AUTO and not self.init.auto_langs:
            raise errors.InvalidMessage(
                "`src_lang` is `auto`, and the session lists no auto_langs; name the language."
            )
        if self._arrivals.in_flight >= self._tools.rules.max_inflight:
            raise errors.RateLimited(
                "The session has as many utterances in flight as it may; wait for results."
            )
        size = len(message.audio or b"") + len(message.text or "")
        if not self._tools.budget.has_room(size):
            raise errors.RateLimited("The server keeps as much as it may; wait for results.")

    async def _refuse(self, message: Utterance, error: errors.DragomanError) -> None:
        """The utterance ends in its turn, with the reason."""
        index, targets = message.utterance_index, targets_for(self.init, message)
        info = ErrorInfo(error.code, error.message, details=error.details or None)
        self._arrivals.open(index, targets)
        for target in targets:
            await self._arrivals.refused(index, target, info, message.request_id)

    def _check_open(self) -> None:
        if self.state is not SessionState.ACTIVE:
            raise errors.SessionClosed("The session is closing; open another one.")

    # --- time and bounds -------------------------------------------------------------------------

    async def look_for_lost_jobs(self) -> None:
        """Find jobs nobody drives any more: ended unheard of, or gone from the ledger."""
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
            if self._segmenter is not None:
                now = self._tools.clock.monotonic()
                await self._cut(self._segmenter, self._segmenter.due(now))
            await self._arrivals.due()
        finally:
            self._arm()

    def _arm(self) -> None:
        """Wake at the next deadline. One that moves later costs nothing."""
        spoken = self._segmenter.deadline if self._segmenter is not None else None
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
            (self._segmenter.buffered_bytes if self._segmenter is not None else 0)
            + self._departures.waiting_bytes
            + self._departures.working_bytes
            + self._arrivals.buffered_bytes
        )
        within = self._tools.budget.change(kept - self._kept_bytes)
        self._kept_bytes = kept
        return within

    # --- the end ---------------------------------------------------------------------------------

    def _finish_if_done(self) -> None:
        """End a closing session once everything was sent.

        While its client is away it waits: the client may come back for its last results.
        """
        link = self.link
        if self.state is not SessionState.CLOSING or link is None or not self._arrivals.all_sent:
            return
        link.send(SessionCloseAck())
        link.finished()
        self._over()

    def _over(self) -> None:
        self.state = SessionState.OVER
        self.stop()
        self._tools.budget.change(-self._kept_bytes)
        self._kept_bytes = 0
        self._client.link = None
        if self._spans is not None:
            self._spans.close()
        self._on_over(self)
