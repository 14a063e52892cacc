"""The way back: utterances that have ended reach the client, in order and under stored numbers."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from dragoman.errors import DependencyDown
from dragoman.ids import JobId
from dragoman.live.dispatch import Progress
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import AsrPartial, ErrorInfo, JobPartial, SchedulerToClient, UiEventName
from dragoman.live.sessions.delivery import GAP_TIMEOUT, Delivery, Ready
from dragoman.live.sessions.hold import Hold
from dragoman.live.sessions.orders import targets_of
from dragoman.live.sessions.record import Delivered, OpenJob, SessionRecord
from dragoman.live.sessions.results import (
    error_message,
    failure,
    missing_result,
    sent_before,
    translation_result,
    weight,
)
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import PROGRESS, Timeline
from dragoman.live.sessions.tools import Client, Tools
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")

RETRY_SECONDS = 1.0
"""After so long a delivery that could not be stored is tried again."""


class Arrivals:
    """Takes in how utterances ended, in any order, and sends it in the right one.

    A number is stored before its message is sent: the session's next owner knows it.
    """

    def __init__(
        self,
        record: SessionRecord,
        tools: Tools,
        client: Client,
        hold: Hold,
        timeline: Timeline | None,
        on_sent: Callable[[], Awaitable[None]],
        spans: Spans | None = None,
    ) -> None:
        rules = tools.rules
        self._session_id = record.session_id
        self._targets = targets_of(record.init)
        self._tools = tools
        self._client = client
        self._hold = hold
        self._timeline = timeline
        self._on_sent = on_sent
        self._spans = spans
        self._delivery: Delivery[JobRecord] = Delivery(
            self._targets,
            reorder_window=rules.reorder_window,
            gap_grace_seconds=rules.gap_grace_seconds,
            keep_messages=rules.queue_messages,
            keep_bytes=rules.queue_bytes,
            next_delivery_seq=record.next_delivery_seq,
            next_index=min(
                (job.utterance_index for job in record.open_jobs),
                default=record.next_utterance_index,
            ),
        )
        self._outbox: deque[Ready[JobRecord]] = deque()
        """Numbered, and not yet sent."""
        self._sending = False
        self._sent_seq = record.next_delivery_seq - 1
        self.stored_index = record.next_utterance_index
        """Utterances below it are stored; of the others nothing is sent yet."""
        self._retry_at: float | None = None
        self._stopped = False

    @property
    def in_flight(self) -> int:
        """Utterances not yet delivered or announced for every target."""
        return self._delivery.in_flight

    @property
    def all_sent(self) -> bool:
        """Whether every utterance so far has ended, and the client was told."""
        return not self._delivery.in_flight and self.idle

    @property
    def idle(self) -> bool:
        """Whether everything that has a number was sent."""
        return not (self._outbox or self._sending)

    @property
    def buffered_bytes(self) -> int:
        return self._delivery.buffered_bytes

    @property
    def deadline(self) -> float | None:
        """When ``due`` must be called; None while nothing can become due by time alone."""
        times = (self._delivery.deadline, self._retry_at)
        return min((time for time in times if time is not None), default=None)

    # --- utterances and their ends ---------------------------------------------------------------

    def open(self, index: int, targets: Sequence[str]) -> None:
        """The next utterance exists."""
        self._delivery.open(index, self._now(), targets)
        if self._timeline is not None:
            self._timeline.expect(index, len(targets))

    def is_open(self, index: int, target: str) -> bool:
        return self._delivery.is_open(index, target)

    async def ended(self, index: int, target: str, record: JobRecord) -> None:
        """A job has ended: its result, or why there is none, takes its turn."""
        info = failure(record)
        if info is not None and self.is_open(index, target):
            self._tell_error(index, target, info, record.spec.request_id, record.job_id)
        now = self._now()
        await self._send(self._delivery.result(index, target, record, weight(record), now))

    async def refused(
        self, index: int, target: str, info: ErrorInfo, request_id: str | None
    ) -> None:
        """No job works on the utterance: the reason takes its turn."""
        if self.is_open(index, target):
            self._tell_error(index, target, info, request_id, None)
        await self._send(self._delivery.missing(index, target, info.code, self._now()))

    def abandoned(self, index: int, target: str) -> None:
        """No node works on the utterance any more: it may block others only so long."""
        self._delivery.abandoned(index, target, self._now())

    async def gave_up(self, index: int, target: str) -> None:
        """No node works on the utterance, and it was waited for long enough."""
        await self._send(self._delivery.missing(index, target, GAP_TIMEOUT, self._now()))

    async def due(self) -> None:
        """Announce what blocked others for too long, and send what could not be stored before."""
        await self._send(self._delivery.due(self._now()))

    # --- what happens meanwhile ------------------------------------------------------------------

    def partial(self, index: int, target: str, message: JobPartial) -> None:
        """A node has recognised a part of the utterance."""
        if not self.is_open(index, target):
            return
        self._client.send(
            AsrPartial(self._session_id, index, message.job_id, message.text, message.is_final)
        )
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.ASR_PARTIAL, message.job_id)

    def progress(self, index: int, target: str, progress: Progress, job_id: JobId) -> None:
        """A job of the utterance took a step."""
        if self._timeline is not None and self.is_open(index, target):
            self._timeline.tell(index, PROGRESS[progress], job_id)

    # --- acknowledgements ------------------------------------------------------------------------

    async def acknowledge(self, upto: int) -> None:
        """Deliveries arrived: their payloads may go."""
        done = self._delivery.acknowledge(min(upto, self._sent_seq))
        if not done:
            return
        jobs = [ready.payload.job_id for ready in done if ready.payload is not None]
        await self._release(done[-1].delivery_seq, jobs)

    async def release_heard(self, record: SessionRecord, has_upto: int) -> None:
        """What the client heard from the earlier owner is acknowledged by its coming back."""
        heard = [entry for entry in record.unacknowledged if entry.delivery_seq <= has_upto]
        if heard:
            jobs = [entry.job_id for entry in heard if entry.job_id is not None]
            await self._release(heard[-1].delivery_seq, jobs)

    async def _release(self, upto: int, jobs: Sequence[JobId]) -> None:
        # When another owns the session now, it hears of it from the client.
        if await self._hold.write(lambda held: self._tools.records.acknowledged(held, upto)):
            await self._tools.ledger.release(jobs)

    def send_again(self, after: int) -> None:
        """What was sent and not acknowledged, in order, under the same numbers."""
        for ready in self._delivery.unacknowledged(after):
            if ready.delivery_seq <= self._sent_seq:
                self._client.send(self._message(ready))

    # --- one owner after another -----------------------------------------------------------------

    def take_up(
        self, record: SessionRecord, found: Mapping[JobId, JobRecord], has_upto: int
    ) -> None:
        """Go on where an earlier owner left off, with a client that has so much."""
        open_targets: defaultdict[int, list[str]] = defaultdict(list)
        for job in record.open_jobs:
            open_targets[job.utterance_index].append(job.target)
        for index in range(self._delivery.next_index, record.next_utterance_index):
            self.open(index, open_targets[index])
        for entry in record.unacknowledged:
            if entry.delivery_seq > has_upto:
                payload = found.get(entry.job_id) if entry.job_id is not None else None
                ready = sent_before(entry, payload)
                self._delivery.restore(ready, weight(ready.payload) if ready.payload else 0)

    def describe(
        self, record: SessionRecord, job_of: Callable[[int, str], JobId | None]
    ) -> SessionRecord:
        """The record with all that is stored of the way back."""
        unsent = [OpenJob(ready.index, ready.target, _job_id(ready)) for ready in self._outbox]
        held = [
            OpenJob(index, target, payload.job_id if payload is not None else job_of(index, target))
            for index, target, payload in self._delivery.undelivered()
        ]
        open_jobs = sorted(
            (job for job in (*unsent, *held) if job.utterance_index < record.next_utterance_index),
            key=lambda job: (job.utterance_index, job.target),
        )
        ended = dict.fromkeys(self._targets, record.next_utterance_index - 1)
        for job in reversed(open_jobs):
            if job.target in ended:
                ended[job.target] = job.utterance_index - 1
        first = self._outbox[0].delivery_seq if self._outbox else self._delivery.next_delivery_seq
        return msgspec.structs.replace(
            record,
            next_delivery_seq=first,
            open_jobs=tuple(open_jobs),
            unacknowledged=tuple(
                _delivered(ready)
                for ready in self._delivery.unacknowledged(0)
                if ready.delivery_seq < first
            ),
            ended={target: index for target, index in ended.items() if index >= 0},
        )

    def results_kept(self) -> list[JobId]:
        """Jobs whose results the client has not acknowledged, sent or not."""
        sent = [*self._delivery.unacknowledged(0), *self._outbox]
        records = [ready.payload for ready in sent]
        records += [payload for _, _, payload in self._delivery.undelivered()]
        return [record.job_id for record in records if record is not None]

    def stop(self) -> None:
        """Send nothing any more: another instance holds the session, or it is over."""
        self._stopped = True
        self._outbox.clear()

    # --- sending ---------------------------------------------------------------------------------

    async def _send(self, ready: Sequence[Ready[JobRecord]]) -> None:
        """Store the delivery numbers, then send; one caller after another."""
        self._count_dropped()
        if self._stopped:
            return
        self._outbox.extend(ready)
        if self._sending:
            return
        self._sending = True
        self._retry_at = None
        try:
            while self._outbox:
                if not await self._store_and_send(self._next_batch()):
                    self._retry_at = self._now() + RETRY_SECONDS
                    break
        except DependencyDown as down:
            self._retry_at = self._now() + RETRY_SECONDS
            log.warning_limited(
                "delivery_not_stored", key="delivery", every_seconds=10, error=down.message
            )
        finally:
            self._sending = False
        await self._on_sent()

    def _next_batch(self) -> Sequence[Ready[JobRecord]]:
        """What may go out now: nothing of an utterance that the next owner would ask for again."""
        batch = []
        for ready in self._outbox:
            if ready.index >= self.stored_index:
                break
            batch.append(ready)
        return batch

    async def _store_and_send(self, batch: Sequence[Ready[JobRecord]]) -> bool:
        """False when nothing could be stored, and so nothing was sent."""
        if not batch:
            return False
        entries = [_delivered(ready) for ready in batch]
        if not await self._hold.write(lambda held: self._tools.records.delivered(held, entries)):
            return False
        if self._stopped:
            return False
        for ready in batch:
            self._outbox.popleft()
            self._sent_seq = ready.delivery_seq
            self._client.send(self._message(ready))
            if self._timeline is not None:
                self._tell_delivered(ready, self._timeline)
            if self._spans is not None:
                self._spans.delivered(ready.index, ready.target, _reason(ready))
        return True

    def _message(self, ready: Ready[JobRecord]) -> SchedulerToClient:
        record = ready.payload
        reason = _reason(ready)
        if record is not None and reason is None:
            return translation_result(
                self._session_id, ready.delivery_seq, ready.index, ready.target, record
            )
        return missing_result(
            self._session_id,
            ready.delivery_seq,
            ready.index,
            ready.target,
            record.job_id if record is not None else None,
            reason or GAP_TIMEOUT,
        )

    def _tell_error(
        self,
        index: int,
        target: str,
        info: ErrorInfo,
        request_id: str | None,
        job_id: JobId | None,
    ) -> None:
        self._client.send(error_message(info, index, target, request_id, job_id))
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.ERROR, job_id, info.code)

    def _tell_delivered(self, ready: Ready[JobRecord], timeline: Timeline) -> None:
        if ready.payload is not None and _reason(ready) is None:
            timeline.tell(ready.index, UiEventName.DELIVERED, ready.payload.job_id)
        timeline.ended(ready.index)

    def _count_dropped(self) -> None:
        if self._delivery.dropped:
            for reason, count in self._delivery.dropped.items():
                self._tools.metrics.results_dropped.labels(reason).inc(count)
            self._delivery.dropped.clear()

    def _now(self) -> float:
        return self._tools.clock.monotonic()


def _reason(ready: Ready[JobRecord]) -> str | None:
    """Why the utterance has no result; None when it has one."""
    if ready.payload is None:
        return ready.reason
    info = failure(ready.payload)
    return info.code if info is not None else None


def _job_id(ready: Ready[JobRecord]) -> JobId | None:
    return ready.payload.job_id if ready.payload is not None else None


def _delivered(ready: Ready[JobRecord]) -> Delivered:
    return Delivered(ready.delivery_seq, ready.index, ready.target, _job_id(ready), _reason(ready))
