"""Results on their way back: each utterance's ends go out in order, and are kept until they are
acknowledged."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import msgspec

from dragoman.clock import Clock
from dragoman.ids import JobId, SessionId, TenantId
from dragoman.live.dispatch import AUTO_TARGET, Job
from dragoman.live.protocol import (
    Backpressure,
    BackpressureAction,
    JobResult,
    MissingResult,
    ServiceType,
    TranslationResult,
    UiEventName,
    normal_language,
)
from dragoman.live.sessions.audience import Audience
from dragoman.live.sessions.messages import missing_result, translation_result, way_taken
from dragoman.live.sessions.past import PastUtterances
from dragoman.live.sessions.ports import ClientLink
from dragoman.live.sessions.recent import RecentDeliveries, RecentDelivery
from dragoman.live.sessions.record_writer import RecordWriter
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.timeline import Timeline
from dragoman.live.shared import records as r
from dragoman.observability import Metrics

Delivery = TranslationResult | MissingResult

GAP_TIMEOUT = "gap_timeout"
"""The reason given for an utterance that kept others waiting for too long, or that is lost."""

_REMEMBERED_MISSING = 1_000
"""Utterances announced missing whose late results are told from repeated ones."""


class End(msgspec.Struct, eq=False, gc=False):
    """How an utterance ended for one target: with a job, or with the reason for none."""

    job: Job | None
    output: JobResult | None
    """Kept here, too: the ledger may let go of it before its turn comes."""
    reason: str | None
    """None: the job succeeded."""
    weight: int


class Lane:
    """The utterances of one target that the client was not told of, in the order spoken."""

    __slots__ = ("held", "order", "working")

    def __init__(self) -> None:
        self.order: deque[int] = deque()
        self.working: dict[int, Job | None] = {}
        """Utterances without an end, and the job that works on each; None before it is made."""
        self.held: dict[int, End] = {}
        """Ends that wait for an utterance before them."""


class Sent(msgspec.Struct, eq=False, gc=False):
    """A delivery that may have to be sent again."""

    message: Delivery
    job: Job | None
    weight: int


class Unacknowledged:
    """Deliveries in the order of their numbers, until the client says that it has them.

    Bounded in messages and in bytes. The oldest go first, and leave a mark behind, so that their
    numbers can still be explained; marks are bounded too.
    """

    def __init__(self, keep_messages: int, keep_bytes: int, session_id: SessionId) -> None:
        self._session_id = session_id
        self.size_bytes = 0
        self._keep_messages = keep_messages
        self._keep_bytes = keep_bytes
        self._kept: deque[Sent] = deque()
        self._marks: deque[Sent] = deque(maxlen=keep_messages * r.MARKS_PER_DELIVERY)

    def keep(self, sent: Sent) -> None:
        """Keep a delivery; the oldest make room for it."""
        self._kept.append(sent)
        self.size_bytes += sent.weight
        while len(self._kept) > self._keep_messages or self.size_bytes > self._keep_bytes:
            oldest = self._kept.popleft()
            self.size_bytes -= oldest.weight
            self._marks.append(_mark_of(oldest, self._session_id))

    def acknowledge(self, upto: int) -> list[Job]:
        """Let go of everything up to a number; the jobs whose results need not be kept."""
        released: list[Job] = []
        while self._marks and self._marks[0].message.delivery_seq <= upto:
            self._marks.popleft()
        kept = self._kept
        while kept and kept[0].message.delivery_seq <= upto:
            sent = kept.popleft()
            self.size_bytes -= sent.weight
            if sent.job is not None:
                released.append(sent.job)
        return released

    def after(self, delivery_seq: int) -> Iterator[Delivery]:
        """Everything with a higher number, in order; a mark stands for what was dropped."""
        for sent in (*self._marks, *self._kept):
            if sent.message.delivery_seq > delivery_seq:
                yield sent.message

    def kept(self) -> list[Delivery]:
        """Every delivery that is still whole, in order."""
        return [sent.message for sent in self._kept]

    def jobs(self) -> list[Job]:
        """The jobs whose results are kept."""
        return [sent.job for sent in self._kept if sent.job is not None]


def _mark_of(sent: Sent, session_id: SessionId) -> Sent:
    message = sent.message
    if isinstance(message, MissingResult):
        return Sent(message, None, 0)
    mark = missing_result(
        session_id, message.delivery_seq, message.utterance_index, message.tgt_lang, None, r.DROPPED
    )
    return Sent(mark, None, 0)


class Deliveries:
    """The utterances of one session that are in flight, and what its client is told of them."""

    def __init__(
        self,
        session_id: SessionId,
        tenant: TenantId,
        own_targets: Collection[str],
        rules: SessionRules,
        metrics: Metrics,
        clock: Clock,
        *,
        writer: RecordWriter | None,
        past: PastUtterances | None,
        timeline: Timeline | None,
        spans: Spans | None,
        recent: RecentDeliveries,
        services_of: Callable[[Job], Mapping[ServiceType, str]],
        on_moved: Callable[[float], None],
    ) -> None:
        """own_targets are those of the whole session: their lanes stay. on_moved is told when
        something went out later than `end` returned."""
        self._session_id = session_id
        self._tenant = tenant
        self._own_targets = own_targets
        self._reorder_window = rules.reorder_window
        self._metrics = metrics
        self._clock = clock
        self._writer = writer
        self._past = past
        self._timeline = timeline
        self._spans = spans
        self._remember = recent.add
        self._services_of = services_of
        self.link: ClientLink | None = None
        """Where the session's client is; None while it is away."""
        self._on_moved = on_moved
        self.lanes: dict[str, Lane] = {}
        self.targets_left: dict[int, int] = {}
        """Utterances in flight, and for how many targets each is."""
        self.held_bytes = 0
        """Ends that wait for an utterance before them, or for their number."""
        self.next_seq = 1
        self.unacknowledged = Unacknowledged(rules.queue_messages, rules.queue_bytes, session_id)
        self._announced: OrderedDict[tuple[int, str], None] = OrderedDict()
        self.audience: Audience | None = None
        """Those who listen; None while there was none."""
        self._is_over = False

    def expect(self, index: int, targets: Collection[str]) -> None:
        """An utterance is complete: it has its place in the lane of every target."""
        lanes = self.lanes
        for target in targets:
            lane = lanes.get(target)
            if lane is None:
                lane = lanes[target] = Lane()
            lane.order.append(index)
            lane.working[index] = None
        self.targets_left[index] = len(targets)
        if self._timeline is not None:
            self._timeline.expect(index, len(targets))

    def is_open(self, index: int, target: str) -> bool:
        """Whether the utterance has no end for the target."""
        lane = self.lanes.get(target)
        return lane is not None and index in lane.working

    def jobs(self) -> list[Job]:
        """The jobs that work for the session now."""
        return [job for lane in self.lanes.values() for job in lane.working.values() if job]

    def end(self, index: int, target: str, end: End, job_id: JobId | None = None) -> None:
        """An utterance has its end for a target: it is sent, with all that waited for it."""
        lane = self.lanes.get(target)
        if lane is None or index not in lane.working:
            late = (index, target) in self._announced
            reason = "late" if late else "duplicate"
            self._metrics.results_dropped.labels(reason).inc()
            return
        del lane.working[index]
        if end.job is None:
            self._announce(index, target)
        if lane.order[0] == index:
            lane.order.popleft()
            self._deliver(index, target, end, job_id)
        else:
            lane.held[index] = end
            self.held_bytes += end.weight
            while len(lane.held) > self._reorder_window:
                self._give_up_head(lane, target)
        if lane.held:
            self._deliver_held(lane, target)
        if not lane.order and target not in self._own_targets:
            del self.lanes[target]

    def close(self) -> list[Job]:
        """Nothing more goes out; the jobs whose results were kept for the client."""
        self._is_over = True
        held = [end.job for lane in self.lanes.values() for end in lane.held.values()]
        self.lanes.clear()
        return [*self.unacknowledged.jobs(), *(job for job in held if job is not None)]

    # --- in order -------------------------------------------------------------------------------

    def _deliver_held(self, lane: Lane, target: str) -> None:
        """Deliver what is no longer blocked."""
        while lane.order and (end := lane.held.pop(lane.order[0], None)) is not None:
            self.held_bytes -= end.weight
            self._deliver(lane.order.popleft(), target, end)

    def _give_up_head(self, lane: Lane, target: str) -> None:
        """The utterance that blocks the others is announced missing."""
        index = lane.order.popleft()
        lane.working.pop(index, None)
        self._announce(index, target)
        self._deliver(index, target, End(None, None, GAP_TIMEOUT, 0))
        self._deliver_held(lane, target)

    def _announce(self, index: int, target: str) -> None:
        self._announced[index, target] = None
        if len(self._announced) > _REMEMBERED_MISSING:
            self._announced.popitem(last=False)

    def _deliver(
        self, index: int, target: str, end: End, job_id: JobId | None = None, seq: int = 0
    ) -> None:
        """Send the end of an utterance under the next number, once that is stored."""
        if not seq:
            if self._writer is not None:
                self._store(self._writer, index, target, end, job_id)
                return
            seq = self.next_seq
        self.next_seq = seq + 1
        job, output = end.job, end.output
        message: Delivery
        if job is not None and output is not None and end.reason is None:
            now = None
            if job.speech_ended is not None:
                now = self._clock.monotonic()
                self._measure_speech(job, output, job.speech_ended, now)
            message = translation_result(self._session_id, seq, index, target, job, output, now)
            self._remember(
                RecentDelivery(
                    self._session_id,
                    self._tenant,
                    seq,
                    index,
                    message.tgt_lang,
                    job.job_id,
                    message.node_id,
                    None,
                    job.finished_ms,
                    message.scheduling,
                    message.timings,
                )
            )
            if self._past is not None:
                self._past.heard(target, job.spec.src_lang, message, output)
        else:
            job_id = job.job_id if job is not None else job_id
            message = missing_result(
                self._session_id, seq, index, target, job_id, end.reason or GAP_TIMEOUT
            )
            self._remember(
                RecentDelivery(
                    self._session_id,
                    self._tenant,
                    seq,
                    index,
                    message.tgt_lang,
                    job_id,
                    None,
                    message.reason,
                    self._clock.now_ms(),
                    None,
                    None,
                )
            )
        self.unacknowledged.keep(Sent(message, job, end.weight))
        self._told(index)
        if self.link is not None:
            self.link.send(message)
        if self.audience is not None:
            self.audience.deliver(message)
        if self._timeline is not None:
            if job is not None and end.reason is None:
                self._timeline.tell(index, UiEventName.DELIVERED, job.job_id)
            self._timeline.ended(index)
        if self._spans is not None:
            self._spans.delivered(index, target, end.reason)

    def _told(self, index: int) -> None:
        """The utterance is in flight for one target less."""
        left = self.targets_left[index] - 1
        if left:
            self.targets_left[index] = left
        else:
            del self.targets_left[index]
            if self._past is not None:
                self._past.texts.pop(index, None)

    def _measure_speech(self, job: Job, output: JobResult, ended: float, now: float) -> None:
        """Count how long the speaker's listeners waited, by pair and by what did the work."""
        metrics, spec = self._metrics, job.spec
        target = way_taken(job, output) if job.lane == AUTO_TARGET else job.lane
        pair = f"{normal_language(spec.src_lang)}:{normal_language(target)}"
        services = self._services_of(job)
        known = now if job.text_known is None else job.text_known
        for histogram, stage, at, is_there in (
            (metrics.speech_to_text, ServiceType.ASR, known, output.text_asr),
            (metrics.speech_to_translation, ServiceType.NMT, now, output.text_translated),
            (metrics.speech_to_audio, ServiceType.TTS, now, output.tts_audio),
        ):
            if is_there:
                histogram.labels(pair, services.get(stage, "unknown")).observe(at - ended)

    # --- stored first, where instances share the record -----------------------------------------

    def _store(
        self, writer: RecordWriter, index: int, target: str, end: End, job_id: JobId | None
    ) -> None:
        """Have the end stored; it is sent when its number is known."""
        job, seq = end.job, 0
        if job is not None:
            job_id = job.job_id
            if job.writer is writer and job.spec.utterance_index == index:
                seq = job.delivery_seq
            # It is kept until the client has it, and must not keep its session.
            job.writer = None
        entry = r.Delivery(index, normal_language(target), job_id or None, end.reason)
        self.held_bytes += end.weight
        writer.deliver(entry, partial(self._stored, index, target, end, job_id), seq)

    def _stored(self, index: int, target: str, end: End, job_id: JobId | None, seq: int) -> None:
        if self._is_over:
            return
        self.held_bytes -= end.weight
        if seq:
            self._deliver(index, target, end, job_id, seq)
        else:
            self._told(index)  # The client acknowledged it before.
        self._on_moved(self._clock.monotonic())


class Pressure:
    """slow_down at half of what may be in flight, pause at the limit, resume below half."""

    def __init__(self, max_inflight: int) -> None:
        self._max = max_inflight
        self._last: BackpressureAction | None = None

    def now(self, in_flight: int) -> Backpressure | None:
        """What to tell the client, when that has changed."""
        if in_flight >= self._max:
            action: BackpressureAction | None = BackpressureAction.PAUSE
        elif in_flight * 2 >= self._max and self._last is not BackpressureAction.PAUSE:
            action = BackpressureAction.SLOW_DOWN
        elif in_flight * 2 < self._max:
            action = BackpressureAction.RESUME if self._last is not None else None
        else:
            action = self._last
        if action is self._last or action is None:
            return None
        self._last = None if action is BackpressureAction.RESUME else action
        return Backpressure(action)
