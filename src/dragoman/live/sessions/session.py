"""One conversation: what comes in becomes jobs, what comes back goes out in order.

A session's state changes on its event loop, between awaits; nothing here needs a lock. Its
messages are handled one after another, results arrive whenever they do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import JobId, SessionId, TenantId
from dragoman.live.dispatch import Dispatcher, JobOrder, Progress
from dragoman.live.ledger import JobInput, JobRecord, Ledger
from dragoman.live.protocol import (
    AsrPartial,
    AudioChunk,
    ErrorInfo,
    JobPartial,
    SchedulerToClient,
    ServerHeartbeat,
    SessionCloseAck,
    SessionInit,
    UiEventName,
    Utterance,
    check_utterance,
)
from dragoman.live.sessions.audio import make_meter
from dragoman.live.sessions.delivery import Delivery, Ready
from dragoman.live.sessions.orders import Speech, job_spec, targets_of, whole_utterance
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.pressure import Pressure
from dragoman.live.sessions.record import Delivered, OpenJob, SessionRecords
from dragoman.live.sessions.results import (
    error_message,
    failure,
    missing_result,
    translation_result,
    weight,
)
from dragoman.live.sessions.rules import Budget, SessionRules
from dragoman.live.sessions.segmenter import Segment, Segmenter
from dragoman.live.sessions.timeline import PROGRESS, Timeline
from dragoman.observability import Metrics

RATE_LIMITED = ErrorInfo(
    "RATE_LIMITED", "The session has as many utterances in flight as it may; wait for results."
)


class Tools(msgspec.Struct, frozen=True):
    """What every session of the process works with."""

    dispatcher: Dispatcher
    ledger: Ledger
    records: SessionRecords
    rules: SessionRules
    budget: Budget
    metrics: Metrics
    clock: Clock


class SessionState(StrEnum):
    """Where a session stands."""

    ACTIVE = "active"
    DISCONNECTED = "disconnected"
    CLOSING = "closing"
    OVER = "over"


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
        rules = tools.rules
        self.session_id = session_id
        self.tenant = tenant
        self.init = init
        self.epoch = 0
        self.link: ClientLink | None = None
        self.state = SessionState.DISCONNECTED
        self.last_heard = tools.clock.monotonic()
        self._tools = tools
        self._on_over = on_over
        self._targets = targets_of(init)
        self._delivery: Delivery[JobRecord] = Delivery(
            self._targets,
            reorder_window=rules.reorder_window,
            gap_grace_seconds=rules.gap_grace_seconds,
            keep_messages=rules.queue_messages,
            keep_bytes=rules.queue_bytes,
        )
        self._pressure = Pressure(rules.max_inflight)
        self._timeline = Timeline(session_id, self.send, tools.clock) if init.ui_events else None
        self._meter = make_meter(init.audio_format, init.sample_rate)
        self._segmenter: Segmenter | None = None
        self._by_utterance = False
        self._held: deque[Speech] = deque()
        """Utterances that are cut but wait until less is in flight."""
        self._held_bytes = 0
        self._kept_bytes = 0
        """What the process's budget was charged for this session."""
        self._next_index = 0
        self._stored_chunk_seq = 0
        self._jobs: dict[tuple[int, str], JobId] = {}
        self._outbox: deque[Ready[JobRecord]] = deque()
        self._sending = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    # --- its connection --------------------------------------------------------------------------

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that is in no stored job."""
        return self._stored_chunk_seq

    @property
    def next_utterance_index(self) -> int:
        return self._next_index

    @property
    def in_flight(self) -> int:
        """Utterances not yet delivered or announced for every target."""
        return self._delivery.in_flight + len(self._held)

    def send(self, message: SchedulerToClient) -> bool:
        return self.link.send(message) if self.link is not None else False

    async def attach(self, link: ClientLink, epoch: int, last_delivery_seq: int) -> None:
        """The client speaks over this connection from now on."""
        before, self.link, self.epoch = self.link, link, epoch
        if before is not None:
            before.superseded()
        if self.state is SessionState.DISCONNECTED:
            self.state = SessionState.ACTIVE
        if self._segmenter is not None:
            self._segmenter.resume(self._tools.clock.monotonic())
            self._arm()
        await self.acknowledge(last_delivery_seq)

    def send_again(self, after: int) -> None:
        """What was sent and not acknowledged, in order, under the same numbers."""
        for ready in self._delivery.unacknowledged(after):
            self.send(self._message(ready))
        if self.state is SessionState.CLOSING:
            self._finish_if_done()

    def detach(self, link: ClientLink) -> bool:
        """The connection is gone; False when the client has another one already."""
        if self.link is not link or self.state is SessionState.OVER:
            return False
        self.link = None
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
        now = self._tools.clock.monotonic()
        segmenter = self._segmenter
        if segmenter is None:
            segmenter = self._segmenter = Segmenter(self._tools.rules.segments, self._meter)
        begins = self._timeline is not None and not segmenter.buffered_bytes
        segments = segmenter.push(chunk.seq, chunk.payload, chunk.is_final, now)
        if begins and self._timeline is not None and chunk.payload:
            self._timeline.tell(self._next_index, UiEventName.INPUT_STARTED)
        for segment in segments:
            await self._cut(segment)
        self._count_ignored(segmenter)
        if self._keep_account():
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
        check_utterance(message)
        self._by_utterance = True
        self._next_index += 1
        speech = whole_utterance(message)
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.INPUT_ENDED)
        if self._delivery.in_flight >= self._tools.rules.max_inflight:
            targets = self._targets_of(speech)
            self._delivery.open(index, self._tools.clock.monotonic(), targets)
            for target in targets:
                await self._failed(index, target, RATE_LIMITED, message.request_id)
            return
        await self._send_off(speech)

    async def heartbeat(self, last_delivery_seq: int | None) -> None:
        """The client is there, and has everything up to a number."""
        if last_delivery_seq is not None:
            await self.acknowledge(last_delivery_seq)
        self.send(ServerHeartbeat(self.next_chunk_seq))

    async def acknowledge(self, upto: int) -> None:
        """Deliveries arrived: their payloads may go."""
        done = self._delivery.acknowledge(upto)
        if not done:
            return
        jobs = [ready.payload.job_id for ready in done if ready.payload is not None]
        await self._tools.records.acknowledged(self.session_id, self.epoch, upto)
        await self._tools.ledger.release(jobs)

    async def close(self) -> None:
        """The speaker is done: the last cut is made, and the end comes after the last result."""
        if self.state in (SessionState.CLOSING, SessionState.OVER):
            return
        self.state = SessionState.CLOSING
        if self._segmenter is not None:
            for segment in self._segmenter.close(self._tools.clock.monotonic()):
                await self._cut(segment)
        self._finish_if_done()

    async def abandon(self) -> None:
        """The client did not come back: its jobs are cancelled, its open audio is dropped."""
        if self.state is SessionState.OVER:
            return
        dispatcher = self._tools.dispatcher
        for job_id in list(self._jobs.values()):
            try:
                await dispatcher.cancel(job_id)
            except (errors.JobEnded, errors.NotFound):
                continue
        await self._end()

    # --- from audio to jobs ----------------------------------------------------------------------

    async def _cut(self, segment: Segment) -> None:
        """An utterance is complete."""
        self._tools.metrics.web_task_finalized.labels(segment.cut.value).inc()
        speech = Speech(
            self._next_index,
            JobInput(audio=self._meter.join(segment.chunks)),
            cut=segment.cut,
            next_chunk_seq=segment.next_seq,
        )
        self._next_index += 1
        if self._timeline is not None:
            self._timeline.tell(speech.index, UiEventName.INPUT_ENDED)
        if self._held or self._delivery.in_flight >= self._tools.rules.max_inflight:
            self._held.append(speech)
            self._held_bytes += speech.size_bytes
            self._press()
        else:
            await self._send_off(speech)

    async def _send_off(self, speech: Speech) -> None:
        """Make the utterance's jobs, one for each target, and store that they are open."""
        tools, index = self._tools, speech.index
        targets = self._targets_of(speech)
        self._delivery.open(index, tools.clock.monotonic(), targets)
        opened: list[OpenJob] = []
        failed: list[tuple[str, ErrorInfo]] = []
        for target in targets:
            spec = job_spec(self.session_id, self.tenant, self.init, tools.rules, speech, target)
            order = JobOrder(
                spec,
                speech.input,
                may_wait=True,
                on_end=partial(self._job_ended, index, target),
                on_partial=partial(self._partial, index),
                on_progress=partial(self._progress, index) if self._timeline else None,
            )
            try:
                submitted = await tools.dispatcher.submit(order)
            except errors.DragomanError as error:
                info = ErrorInfo(error.code, error.message, details=error.details or None)
                failed.append((target, info))
                continue
            if self._delivery.is_open(index, target):
                self._jobs[index, target] = submitted.job_id
                opened.append(OpenJob(index, target, submitted.job_id))
        self._stored_chunk_seq = max(self._stored_chunk_seq, speech.next_chunk_seq)
        await tools.records.opened(
            self.session_id,
            self.epoch,
            opened,
            next_chunk_seq=self._stored_chunk_seq,
            next_utterance_index=index + 1,
        )
        for target, info in failed:
            await self._failed(index, target, info, speech.request_id)
        self._press()

    def _targets_of(self, speech: Speech) -> tuple[str, ...]:
        return (speech.tgt_lang,) if speech.tgt_lang is not None else self._targets

    async def _send_held(self) -> None:
        while self._held and self._delivery.in_flight < self._tools.rules.max_inflight:
            speech = self._held.popleft()
            self._held_bytes -= speech.size_bytes
            await self._send_off(speech)
        self._keep_account()

    # --- from jobs to results --------------------------------------------------------------------

    def _job_ended(self, index: int, target: str, record: JobRecord) -> None:
        self._tools.dispatcher.spawn(self._ended(index, target, record))

    async def _ended(self, index: int, target: str, record: JobRecord) -> None:
        if self.state is SessionState.OVER:
            self._tools.metrics.results_dropped.labels("session_gone").inc()
            return
        self._jobs.pop((index, target), None)
        info = failure(record)
        if info is not None:
            await self._failed(index, target, info, record.spec.request_id, record)
            return
        now = self._tools.clock.monotonic()
        await self._deliver(self._delivery.result(index, target, record, weight(record), now))

    async def _failed(
        self,
        index: int,
        target: str,
        info: ErrorInfo,
        request_id: str | None,
        record: JobRecord | None = None,
    ) -> None:
        """Say why an utterance brings nothing, and announce it missing in its place."""
        self.send(error_message(info, index, request_id))
        if self._timeline is not None:
            job_id = record.job_id if record else None
            self._timeline.tell(index, UiEventName.ERROR, job_id, info.code)
        now = self._tools.clock.monotonic()
        await self._deliver(self._delivery.missing(index, target, info.code, now))

    async def _deliver(self, ready: Sequence[Ready[JobRecord]]) -> None:
        """Store the delivery numbers, then send; one after another, whoever comes."""
        self._outbox.extend(ready)
        if self._sending:
            return
        self._sending = True
        try:
            while self._outbox:
                batch = list(self._outbox)
                self._outbox.clear()
                await self._tools.records.delivered(
                    self.session_id, self.epoch, [_delivered(entry) for entry in batch]
                )
                for entry in batch:
                    self._send_ready(entry)
        finally:
            self._sending = False
        if self._held:
            await self._send_held()
        self._press()
        self._arm()
        if self.state is SessionState.CLOSING:
            self._finish_if_done()

    def _send_ready(self, ready: Ready[JobRecord]) -> None:
        self.send(self._message(ready))
        if self._timeline is not None:
            if ready.payload is not None:
                self._timeline.tell(ready.index, UiEventName.DELIVERED, ready.payload.job_id)
            self._timeline.over(ready.index)

    def _message(self, ready: Ready[JobRecord]) -> SchedulerToClient:
        if ready.payload is not None:
            return translation_result(
                self.session_id, ready.delivery_seq, ready.index, ready.target, ready.payload
            )
        return missing_result(
            self.session_id,
            ready.delivery_seq,
            ready.index,
            ready.target,
            ready.payload,
            ready.reason or "gap_timeout",
        )

    def _partial(self, index: int, message: JobPartial) -> None:
        self.send(
            AsrPartial(self.session_id, index, message.job_id, message.text, message.is_final)
        )
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.ASR_PARTIAL, message.job_id)

    def _progress(self, index: int, progress: Progress, job_id: JobId) -> None:
        if self._timeline is not None:
            self._timeline.tell(index, PROGRESS[progress], job_id)

    # --- time and bounds -------------------------------------------------------------------------

    async def _due(self) -> None:
        now = self._tools.clock.monotonic()
        if self._segmenter is not None:
            for segment in self._segmenter.due(now):
                await self._cut(segment)
            self._count_ignored(self._segmenter)
        await self._deliver(self._delivery.due(now))
        self._arm()

    def _arm(self) -> None:
        """Wake at the next deadline. One that moves later costs nothing."""
        times = [
            at
            for at in (
                self._segmenter.deadline if self._segmenter is not None else None,
                self._delivery.deadline,
            )
            if at is not None
        ]
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
            self.send(message)

    def _keep_account(self) -> bool:
        """Bound what is kept, for the session and for the process; False when it is too much."""
        buffered = self._segmenter.buffered_bytes if self._segmenter is not None else 0
        kept = buffered + self._held_bytes
        within = self._tools.budget.change(kept - self._kept_bytes)
        self._kept_bytes = kept
        if kept > self._tools.rules.queue_bytes:
            within = False
        if not within and self.link is not None:
            self.link.overrun("more audio came than can be kept; wait for results")
        return within

    def _count_ignored(self, segmenter: Segmenter) -> None:
        if segmenter.ignored:
            for reason, count in segmenter.ignored.items():
                self._tools.metrics.audio_ignored.labels(reason).inc(count)
            segmenter.ignored.clear()

    def _check_open(self) -> None:
        if self.state is not SessionState.ACTIVE:
            raise errors.SessionClosed("The session is closing; open another one.")

    # --- the end ---------------------------------------------------------------------------------

    def _finish_if_done(self) -> None:
        if self.in_flight or self._outbox or self._sending:
            return
        if self.link is not None:
            self.link.send(SessionCloseAck())
            self.link.finished()
        self._tools.dispatcher.spawn(self._end())

    async def _end(self) -> None:
        if self.state is SessionState.OVER:
            return
        self.state = SessionState.OVER
        if self._timer is not None:
            self._timer.cancel()
        self._tools.budget.change(-self._kept_bytes)
        self._kept_bytes = 0
        self._held.clear()
        self._on_over(self)
        await self._tools.records.forget(self.session_id, self.epoch)


def _delivered(ready: Ready[JobRecord]) -> Delivered:
    return Delivered(
        ready.delivery_seq,
        ready.index,
        ready.target,
        ready.payload.job_id if ready.payload is not None else None,
        ready.reason,
    )
