"""One conversation: what comes in becomes jobs, what comes back goes out in order.

A session is its own record. Its messages and the ends of its jobs change it where they arrive;
nothing here waits, and nothing needs a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import JobId, RequestId, SessionId, TenantId
from dragoman.live.budget import ByteBudget
from dragoman.live.dispatch import (
    CANCELLED,
    NOT_CUT,
    SUCCESS,
    Job,
    Progress,
    Route,
    Stop,
    TenantCounts,
    body_hash,
    named_hash,
    weight_of,
)
from dragoman.live.ledger import JobInput, Keep
from dragoman.live.protocol import (
    AsrPartial,
    Error,
    ErrorInfo,
    JobPartial,
    Outcome,
    SchedulerToClient,
    ServerHeartbeat,
    SessionCloseAck,
    SessionInit,
    SessionState,
    UiEventName,
    Utterance,
    normal_language,
)
from dragoman.live.sessions.audience import Audience, Listener, listen_token
from dragoman.live.sessions.delivery import GAP_TIMEOUT, Deliveries, End, Lane, Pressure
from dragoman.live.sessions.input import SpeechInput, SpokenUtterance
from dragoman.live.sessions.messages import error_message, failure
from dragoman.live.sessions.orders import targets_of
from dragoman.live.sessions.past import PastUtterances
from dragoman.live.sessions.ports import ClientLink, JobWatching, ResultKeeper, SessionPeers
from dragoman.live.sessions.recent import RecentDeliveries
from dragoman.live.sessions.record_writer import NO_JOB, RecordWriter, WriterTerms
from dragoman.live.sessions.resume import lane_of, sent_before
from dragoman.live.sessions.rules import SessionRules
from dragoman.live.sessions.spans import Spans
from dragoman.live.sessions.speech import Asks, Speech, refusal_info
from dragoman.live.sessions.timeline import PROGRESS, Timeline
from dragoman.live.shared import SharedLedger
from dragoman.live.shared import records as r
from dragoman.observability import Metrics, Tracing, get_logger

if TYPE_CHECKING:
    from dragoman.live.dispatch import JobDispatcher

log = get_logger("dragoman.sessions")

ACTIVE: Final = SessionState.ACTIVE
DISCONNECTED: Final = SessionState.DISCONNECTED
CLOSING: Final = SessionState.CLOSING
OVER: Final = SessionState.OVER

_BUDGET_STEP_BYTES = 8_192
"""Audio that is being spoken is charged to the process's budget in steps of so much."""


class SessionContext(Struct, frozen=True):
    """What every session of the process works with."""

    dispatcher: JobDispatcher
    ledger: ResultKeeper
    rules: SessionRules
    budget: ByteBudget
    metrics: Metrics
    clock: Clock
    tracing: Tracing | None
    recent: RecentDeliveries
    """What was delivered lately, of all sessions."""
    shared: SharedLedger | None = None
    """Keeps the sessions' records for all instances; None: this instance is alone."""
    peers: SessionPeers | None = None
    tenants: TenantCounts[SessionId] | None = None
    """None: a tenant's sessions are counted here alone."""
    watching: JobWatching | None = None
    """Hears of jobs that other instances drive. Set where instances share records."""
    claim_ms: int = 0
    """How long a job is its driver's after it was opened."""
    keep: Keep = Keep(0, 0)
    """How long the jobs of utterances are remembered."""
    renew_seconds: float = 10.0
    """How often every record is renewed: a third of the time that it lives without that."""


class Session:
    """A conversation with one client, over one connection after another."""

    # Every session has more fields than Python keeps without a dictionary of its own for each.
    __slots__ = (
        "_asks",
        "_budget",
        "_by_utterance",
        "_charged_bytes",
        "_clock",
        "_context",
        "_deliveries",
        "_dispatcher",
        "_draining",
        "_next_chunk_seq",
        "_on_over",
        "_pressed",
        "_pressure",
        "_rest_is_cut",
        "_route",
        "_rules",
        "_spans",
        "_submitting",
        "_timeline",
        "_trace",
        "_waiting",
        "_waiting_bytes",
        "_watched",
        "_working_bytes",
        "handed_on",
        "init",
        "input",
        "last_heard",
        "link",
        "next_utterance_index",
        "past",
        "secret_hash",
        "session_id",
        "state",
        "tenant",
        "writer",
    )

    def __init__(
        self,
        session_id: SessionId,
        tenant: TenantId,
        init: SessionInit,
        secret_hash: str,
        context: SessionContext,
        on_over: Callable[[Session], None],
        record: r.StoredSession | None = None,
        on_doubt: Callable[[], None] | None = None,
    ) -> None:
        """record is what instances share of it; None: this instance is alone. `take_up` follows
        when an earlier owner wrote it. on_doubt is told when records may have lost something."""
        rules = context.rules
        self.session_id = session_id
        self.tenant = tenant
        self.init = init
        self.secret_hash = secret_hash
        """Proves that a resume_token is this session's."""
        self.state = DISCONNECTED
        self.link: ClientLink | None = None
        self.last_heard = context.clock.monotonic()
        self.handed_on = False
        """Another instance has the session, or may have it: it is over here, but only here."""
        self._context = context
        self._dispatcher = context.dispatcher
        self._budget = context.budget
        self._on_over = on_over
        self._rules = rules
        self._clock = context.clock
        self._route = Route()
        self._asks = Asks(session_id, tenant, init, rules, context.dispatcher.requirement)
        self._trace = session_id.removeprefix("s-")
        self._timeline = Timeline(session_id, self._send, context.clock) if init.ui_events else None
        self._spans = (
            Spans(session_id, init, context.tracing, context.clock) if context.tracing else None
        )
        self.writer: RecordWriter | None = None
        """Stores what the client is told before it is told; None: there is no record."""
        if record is not None and context.shared is not None:
            doubt = on_doubt or _ignore
            self.writer = RecordWriter(
                record,
                context.shared,
                WriterTerms(context.claim_ms, context.keep, rules.queue_messages),
                run=context.dispatcher.run,
                on_lost=self._lost,
                on_restored=doubt,
                on_down=doubt,
            )
        # What comes in.
        self.input = SpeechInput(
            init, rules, context.metrics, context.clock, context.dispatcher.run, self
        )
        """Audio that is in no utterance yet."""
        self.next_utterance_index = 0
        self._by_utterance = False
        self._next_chunk_seq = 0
        self.past: PastUtterances | None = None
        """What was said last, for nodes; None: they are not told."""
        if rules.past.hold_for(tenant):
            store = self._store_past if self.writer is not None else None
            self.past = PastUtterances(init, rules.past, store)
        # What waits for its job, and what jobs work on.
        self._waiting: deque[Speech] = deque()
        self._waiting_bytes = 0
        self._working_bytes = 0
        self._submitting = False
        # What goes back.
        self._deliveries = Deliveries(
            session_id,
            tenant,
            frozenset(targets_of(init)),
            rules,
            context.metrics,
            context.clock,
            writer=self.writer,
            past=self.past,
            timeline=self._timeline,
            spans=self._spans,
            recent=context.recent,
            services_of=context.dispatcher.services_of,
            on_moved=self._moved,
        )
        self._pressure = Pressure(rules.max_inflight)
        self._pressed = False
        self._draining = False
        self._rest_is_cut = False
        """While draining: what was said so far is in utterances."""
        self._charged_bytes = 0
        """What the process's budget was charged for this session."""
        self._watched: dict[tuple[int, str], JobId] = {}
        """Utterances that an earlier owner, or another request, had made the jobs of."""
        if record is not None:
            self._go_on_from(record)

    def _go_on_from(self, record: r.StoredSession) -> None:
        """Begin where the record ends."""
        self.next_utterance_index = record.next_index
        self._deliveries.next_seq = record.next_seq
        self.input.go_on_from(record.next_chunk_seq, record.half_sample)
        self._by_utterance = bool(record.next_index) and not self.input.has_come

    @property
    def tgt_langs(self) -> tuple[str, ...]:
        """The languages it is translated into; both, where it goes either way."""
        return self.init.heard

    @property
    def listen_token(self) -> str:
        """Lets others listen, and nothing else: no other secret follows from it."""
        return listen_token(self.secret_hash)

    def let_listen(self, listener: Listener, last_delivery_seq: int | None) -> None:
        """Give a listener what is kept after a number, and from now on each result."""
        deliveries = self._deliveries
        if deliveries.audience is None:
            rules = self._rules
            deliveries.audience = Audience(
                rules.listeners,
                rules.queue_messages,
                rules.queue_bytes,
                deliveries.next_seq,
                deliveries.unacknowledged.kept(),
            )
        deliveries.audience.join(listener, last_delivery_seq)
        self.charge()

    def stops_listening(self, listener: Listener) -> None:
        """A listener is gone."""
        if self._deliveries.audience is not None:
            self._deliveries.audience.leave(listener)

    @property
    def next_chunk_seq(self) -> int:
        """The first chunk that is in no job; where there is a record, in no stored one.

        With voice activity, chunks of silence are done with, too."""
        if self.writer is not None:
            return self.writer.next_chunk_seq
        silent_until = self.input.silent_until
        if silent_until is not None and not self._waiting:
            return silent_until[0]
        return self._next_chunk_seq

    @property
    def next_stored_index(self) -> int:
        """The first utterance that the client must be ready to say again."""
        return self.next_utterance_index if self.writer is None else self.writer.next_index

    @property
    def in_flight(self) -> int:
        """Utterances not yet delivered or announced for every target."""
        return len(self._deliveries.targets_left)

    # --- its connection -------------------------------------------------------------------------

    def attach(self, link: ClientLink) -> None:
        """The client speaks over this connection from now on."""
        before = self.link
        self.link = self._deliveries.link = link
        if before is not None:
            before.superseded()
        if self.writer is not None:
            self.writer.client_is_here = True
        if self.state is DISCONNECTED:
            self.state = ACTIVE
        self.input.resume()

    def go_on(self, last_delivery_seq: int) -> None:
        """The client is back, and has everything up to a number."""
        for message in self._deliveries.unacknowledged.after(last_delivery_seq):
            self._send(message)
        # What the client was told before may have been lost with its connection.
        self._pressure = Pressure(self._rules.max_inflight)
        self._pressed = False
        self._press()
        self._finish_if_done()
        self.acknowledge(last_delivery_seq)

    def detach(self, link: ClientLink) -> bool:
        """The connection is gone; False when the client has another one already."""
        if self.link is not link or self.state is OVER:
            return False
        self.link = self._deliveries.link = None
        if self.writer is not None:
            self.writer.client_left()
        if self.state is ACTIVE:
            self.state = DISCONNECTED
        self.input.suspend()
        return True

    def _send(self, message: SchedulerToClient) -> bool:
        """False when the client cannot be reached now."""
        return self.link.send(message) if self.link is not None else False

    # --- one owner after another ----------------------------------------------------------------

    def take_up(self, record: r.StoredSession, ended: Mapping[JobId, Job], has_upto: int) -> None:
        """Go on where an earlier owner left off, with a client that has so much.

        ended are the jobs of what the client has not acknowledged, as far as they are kept.
        """
        deliveries = self._deliveries
        for utterance in record.open:
            lane = deliveries.lanes.setdefault(lane_of(self.init, utterance.target), Lane())
            lane.order.append(utterance.index)
            lane.working[utterance.index] = None
            self._deliveries.targets_left[utterance.index] = (
                self._deliveries.targets_left.get(utterance.index, 0) + 1
            )
        if self._timeline is not None:
            for index, targets in self._deliveries.targets_left.items():
                self._timeline.expect(index, targets)
        for sent in record.unacknowledged:
            job_id = sent.delivery.job_id
            job = ended.get(job_id) if job_id is not None else None
            if sent.seq > has_upto:
                target = lane_of(self.init, sent.delivery.target)
                deliveries.unacknowledged.keep(sent_before(self.session_id, sent, target, job))
            elif job is not None:
                # What the client heard from the earlier owner it acknowledges by coming back.
                self._context.ledger.release_now(job)

    def take_up_jobs(self, record: r.StoredSession, watching: JobWatching) -> None:
        """The client is there: bring it what has ended, and wait for the rest."""
        for utterance in record.open:
            if self.state is OVER:
                return
            lane = lane_of(self.init, utterance.target)
            if utterance.job_id == NO_JOB:
                self._watched_ended(utterance.index, lane, None)
            else:
                self._watch(utterance.index, lane, utterance.job_id, watching)

    def has_said(self, upto: int) -> bool:
        """Whether the client heard up to this number from this very session."""
        return upto < self._deliveries.next_seq

    async def check_hold(self, *, returning: bool = False) -> bool:
        """Find out whether the session is still this instance's; if not, it is let go of.

        If it is, its record is made whole, where its client is here or just returning.
        """
        if self.state is OVER or self.writer is None:
            return False
        return await self.writer.check(returning=returning)

    def hand_on(self) -> None:
        """Let go of the session: another connection has it, at this instance or another."""
        if self.state is OVER:
            return
        link = self.link
        self._let_go()
        if link is not None:
            link.superseded()

    def _store_past(self, written: bytes) -> None:
        """Have the record keep what was said last."""
        if self._context.shared is not None:
            self._dispatcher.run(self._keep_past(self._context.shared, written))

    async def _keep_past(self, shared: SharedLedger, written: bytes) -> None:
        with suppress(errors.DependencyDown):  # The next result is written with it.
            await shared.keep_past(self.session_id, written)

    def _lost(self, owner: r.SessionOwner) -> None:
        log.info("session_handed_on", session_id=self.session_id, to=owner.instance_id)
        self.hand_on()

    # --- what the client says -------------------------------------------------------------------

    def takes_audio(self) -> bool:
        """Whether audio counts now; raises where it must not come at all."""
        if self.state is not ACTIVE:
            raise _closing()
        if self._draining:
            return False
        if self._by_utterance:
            raise errors.InvalidMessage(
                "This session sends whole utterances; audio_chunk and utterance do not mix."
            )
        return True

    def speech_began(self) -> None:
        """Audio of the next utterance is there."""
        if self._timeline is not None:
            self._timeline.tell(self.next_utterance_index, UiEventName.INPUT_STARTED)
        if self._spans is not None:
            self._spans.heard(self.next_utterance_index)

    def spoken(self, utterances: Sequence[SpokenUtterance], *, goes_on: bool, now: float) -> None:
        """Utterances are complete. They get their numbers before anything else can happen."""
        asked = self._asks.of_audio()
        for each in utterances:
            speech = Speech(
                self.next_utterance_index,
                asked.targets,
                asked.asks,
                JobInput(audio=each.audio),
                len(each.audio),
                cut=each.cut,
                began=each.began,
                speech_ended=each.speech_ended,
                next_chunk_seq=each.next_chunk_seq,
                half_sample=each.place,
            )
            self.next_utterance_index += 1
            if self._timeline is not None:
                self._timeline.tell(speech.index, UiEventName.INPUT_ENDED)
            self._deliveries.expect(speech.index, speech.targets)
            if self._spans is not None:
                self._spans.begin(speech)
            self._waiting.append(speech)
            self._waiting_bytes += speech.size_bytes
        if goes_on:
            self.speech_began()
        self._submit_waiting(now)
        self._press()

    def check_kept(self) -> None:
        """Cut off a client that sends more audio than can be kept."""
        within = self.charge()
        segmenter = self.input.segmenter
        kept = self._waiting_bytes + (segmenter.buffered_bytes if segmenter is not None else 0)
        if self.link is not None and (not within or kept > self._rules.queue_bytes):
            self.link.overrun("more audio came than can be kept; wait for results")

    def judged(self) -> None:
        """A slow detector has judged all that came in."""
        if self.state is CLOSING or self._draining:
            self._finish_if_done()

    def utterance(self, message: Utterance, now: float) -> None:
        """A whole utterance; one that came before is passed over."""
        if self.state is not ACTIVE:
            raise _closing()
        if self._draining:
            return
        if self.input.segmenter is not None:
            raise errors.InvalidMessage(
                "This session sends audio chunks; utterance and audio_chunk do not mix."
            )
        index = message.utterance_index
        if index != self.next_utterance_index:
            if index < self.next_utterance_index:
                return
            raise errors.InvalidMessage(
                f"utterance_index {index} came where {self.next_utterance_index} is next; "
                "send them next after next."
            )
        self._by_utterance = True
        self.next_utterance_index = index + 1
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.INPUT_ENDED)
        speech = self._speech_of(message)
        self._deliveries.expect(index, speech.targets)
        if self._spans is not None:
            self._spans.begin(speech)
        # No more are in flight than may be, so that it need not wait.
        self._make_jobs(speech, now)
        if self._pressed or len(self._deliveries.targets_left) * 2 >= self._rules.max_inflight:
            self._press()

    def _speech_of(self, message: Utterance) -> Speech:
        """The utterance with what it asks for; one that makes no sense or is too much is refused
        in its turn."""
        audio, text = message.audio, message.text
        size = len(audio) if audio is not None else 0
        if text is not None:
            size += len(text)
        way = (
            message.src_lang,
            message.tgt_lang,
            message.pipeline,
            message.features,
            None if message.services is None else tuple(sorted(message.services.items())),
            audio is None,
        )
        try:
            asked = self._asks.get(way)
            if asked is None or not size or (audio is None) == (text is None):
                asked = self._asks.work_out(message, way)
            if len(self._deliveries.targets_left) >= self._rules.max_inflight:
                raise errors.RateLimited(
                    "The session has as many utterances in flight as it may; wait for results."
                )
            kept_bytes = size * len(asked.asks)
            if not self._budget.take(kept_bytes):
                raise errors.RateLimited("The server keeps as much as it may; wait for results.")
            self._charged_bytes += kept_bytes
        except errors.DragomanError as error:
            return Speech(
                message.utterance_index,
                self._asks.targets_of(message),
                (),
                JobInput(),
                0,
                request_id=message.request_id,
                refusal=refusal_info(error),
            )
        return Speech(
            message.utterance_index,
            asked.targets,
            asked.asks,
            JobInput(audio, text),
            size,
            NOT_CUT,
            message.request_id,
        )

    def heartbeat(self, last_delivery_seq: int | None) -> None:
        """The client is there, and has everything up to a number."""
        if last_delivery_seq is not None:
            self.acknowledge(last_delivery_seq)
        if self.writer is not None and not self._waiting:
            self._pass_silence(self.writer)
        self._send(ServerHeartbeat(self.next_chunk_seq))

    def _pass_silence(self, writer: RecordWriter) -> None:
        """Let the record know how far there is nothing to send again, where that is all there is.

        What follows an utterance is stored with that utterance.
        """
        silent_until = self.input.silent_until
        if silent_until is not None and not self.input.has_begun:
            writer.heard_until(*silent_until)

    def acknowledge(self, upto: int) -> None:
        """Deliveries arrived: their payloads may go."""
        upto = min(upto, self._deliveries.next_seq - 1)
        if self.writer is not None:
            self.writer.acknowledge(upto)
        released = self._deliveries.unacknowledged.acknowledge(upto)
        for job in released:
            self._context.ledger.release_now(job)
        if released:
            self.charge()

    def close(self) -> None:
        """The speaker is done: the last cut is made, and the end comes after the last result."""
        if self.state in (CLOSING, OVER) or self._draining:
            return
        self.state = CLOSING
        self.input.cut_rest()
        self._press()
        self._finish_if_done()

    # --- utterances become jobs -----------------------------------------------------------------

    def _submit_waiting(self, now: float) -> None:
        """Make jobs of what waits, as long as not too much is in flight."""
        if self._submitting:
            return
        self._submitting = True
        try:
            waiting, most = self._waiting, self._rules.max_inflight
            while waiting and self.state is not OVER:
                if len(self._deliveries.targets_left) - len(waiting) >= most:
                    return
                speech = waiting.popleft()
                self._waiting_bytes -= speech.size_bytes
                if speech.next_chunk_seq > self._next_chunk_seq:
                    self._next_chunk_seq = speech.next_chunk_seq
                self._make_jobs(speech, now)
        finally:
            self._submitting = False

    def _store_opening(self, writer: RecordWriter, speech: Speech) -> None:
        """Have the utterance stored, with the jobs that were claimed for it."""
        targets = map(normal_language, speech.targets)
        writer.open(speech.index, targets, speech.next_chunk_seq, speech.half_sample)

    def _make_jobs(self, speech: Speech, now: float) -> None:
        """Make the utterance's job for each target; its end comes through `job_ended`."""
        index, own_id, given = speech.index, speech.request_id, speech.input
        audio, past, lanes = given.audio, self.past, self._deliveries.lanes
        ended = now if speech.speech_ended is None else speech.speech_ended
        if past is not None and given.text is not None:
            past.texts[index] = given.text
        for ask in speech.asks:
            spec = replace(
                ask.spec,
                request_id=own_id or f"{self.session_id}/{index}",
                cut=speech.cut,
                padding_ms=0 if audio is None else self._rules.padding_ms(speech.cut),
                utterance_index=index,
                trace_id=self.init.trace_id or f"{self._trace}{index:08x}",
            )
            if own_id is not None:
                body = body_hash(spec, given)
            else:
                body = ask.demand_hash if audio is None else named_hash(ask.demand_hash, given)
            job = Job(
                spec,
                given,
                body,
                ask.requirement,
                self._route,
                now,
                now if speech.began is None else speech.began,
                True,
                ask.target_key,
                self,
                ask.target,
                self._timeline is not None,
                own_id is None,
                None if audio is None else ended,
                None,
                self.writer,
            )
            job.total_until = now + self._dispatcher.total_seconds
            job.weight = speech.size_bytes
            if past is not None and ask.target in past.by_target:
                job.context = tuple(past.by_target[ask.target].utterances)
            if self._spans is not None:
                job.parent_span = self._spans.context(index)
            lanes[ask.target].working[index] = job
            self._working_bytes += speech.size_bytes
            self._start(job, now)
        if self.writer is not None:
            self._store_opening(self.writer, speech)
        if speech.refusal is not None:
            for target in speech.targets:
                self._refused(index, target, speech.refusal, own_id, now)

    def _start(self, job: Job, now: float) -> None:
        try:
            self._dispatcher.start(job, now)
        except errors.DragomanError as error:
            self.job_refused(job, error, now)
        except Exception:
            # Without its end the utterance would block every later one.
            log.exception("utterance_not_submitted", session_id=self.session_id)
            failed = errors.InternalError("The server failed on this utterance; send it again.")
            self.job_refused(job, failed, now)

    # --- what becomes of jobs -------------------------------------------------------------------

    def job_ended(self, job: Job, now: float) -> None:
        """A job of the session has its end: its result, or why there is none, takes its turn."""
        self._working_bytes -= job.weight
        output, reason = job.output, None
        if job.outcome is not SUCCESS:
            reason = self._failed(job)
        elif self.state is OVER:
            self._context.metrics.results_dropped.labels("session_gone").inc()
            self._context.ledger.release_now(job)
            return
        if self.state is not OVER:
            end = End(job, output, reason, weight_of(output))
            self._deliveries.end(job.spec.utterance_index or 0, job.lane, end)
            self._moved(now)

    def _failed(self, job: Job) -> str:
        """Tell why a job brought nothing, while its utterance is open."""
        info = failure(job)
        index = job.spec.utterance_index or 0
        if self.state is not OVER and self._deliveries.is_open(index, job.lane):
            self._tell_error(index, job.lane, info, job.spec.request_id, job.job_id)
        return info.code

    def job_refused(self, job: Job, error: errors.DragomanError, now: float) -> None:
        """No job was made: the reason takes its turn."""
        named = f"{self.session_id}/{job.spec.utterance_index}"
        if (
            self.writer is not None
            and isinstance(error, errors.RequestConflict)
            and job.spec.request_id == named
        ):
            self._claim_otherwise(job, error, self.writer, now)
            return
        self._working_bytes -= job.weight
        job.owner = None
        info = ErrorInfo(error.code, error.message, details=error.details or None)
        index = job.spec.utterance_index or 0
        self._refused(index, job.lane, info, job.spec.request_id, now)

    def _claim_otherwise(
        self, job: Job, conflict: errors.RequestConflict, writer: RecordWriter, now: float
    ) -> None:
        """An earlier owner cut the same audio otherwise, and its record of that was lost.

        What it made of it is not wanted. What is here goes under a name of its own, and is opened
        as a request beside the record, where the utterance is open already.
        """
        other_id = conflict.details.get("job_id")
        if isinstance(other_id, str):
            self._dispatcher.run(self._cancel(JobId(other_id)))
        assert job.input is not None, "a job that has not ended has its input"
        name = RequestId(f"{job.spec.request_id}/{writer.owner.epoch}")
        self._make_again(job, name, job.input, now)

    def job_forgotten(self, job: Job, job_input: JobInput, now: float) -> None:
        """The ledger lost the job: it is made again from its input, beside the record."""
        if self._deliveries.is_open(job.spec.utterance_index or 0, job.lane):
            self._make_again(job, job.spec.request_id, job_input, now)
        else:
            self._working_bytes -= job.weight

    def _make_again(self, job: Job, request_id: RequestId, job_input: JobInput, now: float) -> None:
        again = Job(
            replace(job.spec, request_id=request_id),
            job_input,
            job.body_hash,
            job.requirement,
            job.route,
            job.started,
            job.began,
            job.may_wait,
            job.target_key,
            self,
            job.lane,
            job.watched,
        )
        again.total_until, again.weight = job.total_until, job.weight
        again.speech_ended = job.speech_ended
        again.parent_span = job.parent_span
        again.context = job.context
        again.on_submitted = self._made_again
        job.owner = None
        index = job.spec.utterance_index or 0
        if self._deliveries.is_open(index, job.lane):
            self._deliveries.lanes[job.lane].working[index] = again
        self._start(again, now)

    def _made_again(self, job: Job, error: errors.DragomanError | None) -> None:
        """The utterance is another job's now: the record names it, for the next owner."""
        if self.writer is not None and job.job_id:
            index, target = job.spec.utterance_index or 0, normal_language(job.lane)
            self.writer.made_again(index, target, job.job_id)

    def job_found(self, job: Job, known: Job, now: float) -> None:
        """The request was made before, here or elsewhere: its job's end is this one's."""
        self._working_bytes -= job.weight
        job.owner = None
        index, lane = job.spec.utterance_index or 0, job.lane
        if self.writer is not None:
            self.writer.made_again(index, normal_language(lane), known.job_id)
        if self._deliveries.is_open(index, lane):
            self._deliveries.lanes[lane].working[index] = None
        if self._context.watching is not None:
            self._watch(index, lane, known.job_id, self._context.watching)
        else:
            self._dispatcher.expect_job(known, partial(self._found_ended, index, lane))

    def _watch(self, index: int, lane: str, job_id: JobId, watching: JobWatching) -> None:
        """Wait for a job that this session did not make, or not here."""
        self._watched[index, lane] = job_id
        watching.watch(
            job_id,
            partial(self._watched_ended, index, lane),
            partial(self._watched_partial, index, lane),
            partial(self._watched_progressed, index, lane) if self._timeline is not None else None,
        )

    def _watched_ended(self, index: int, lane: str, known: Job | None) -> None:
        """A job ended that was watched; None: no ledger knows it any more."""
        self._watched.pop((index, lane), None)
        if known is not None:
            self._found_ended(index, lane, known)
        elif self.state is not OVER:
            self._end(index, lane, End(None, None, GAP_TIMEOUT, 0), self._clock.monotonic())

    def _watched_partial(self, index: int, lane: str, message: JobPartial) -> None:
        if self.state is not OVER:
            self._tell_partial(index, lane, message)

    def _watched_progressed(self, index: int, lane: str, progress: Progress, job_id: JobId) -> None:
        if self._timeline is not None and self._deliveries.is_open(index, lane):
            self._timeline.tell(index, PROGRESS[progress], job_id)

    def _found_ended(self, index: int, lane: str, known: Job) -> None:
        if self.state is OVER:
            return
        now = self._clock.monotonic()
        output = known.output
        if known.outcome is SUCCESS and output is not None:
            self._end(index, lane, End(known, output, None, weight_of(output)), now)
            return
        if known.outcome is SUCCESS:
            info = ErrorInfo(errors.RateLimited.code, "The result is no longer kept.")
        else:
            info = failure(known)
        if self._deliveries.is_open(index, lane):
            self._tell_error(index, lane, info, known.spec.request_id, known.job_id)
        self._end(index, lane, End(None, None, info.code, 0), now, known.job_id)

    def job_partial(self, job: Job, message: JobPartial) -> None:
        """A node has recognised a part of the utterance."""
        if message.is_final:
            job.text_known = self._clock.monotonic()
        self._tell_partial(job.spec.utterance_index or 0, job.lane, message)

    def _tell_partial(self, index: int, lane: str, message: JobPartial) -> None:
        if not self._deliveries.is_open(index, lane):
            return
        self._send(
            AsrPartial(self.session_id, index, message.job_id, message.text, message.is_final)
        )
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.ASR_PARTIAL, message.job_id)

    def job_progressed(self, job: Job, progress: Progress) -> None:
        """A job of the utterance took a step."""
        index = job.spec.utterance_index or 0
        if self._timeline is not None and self._deliveries.is_open(index, job.lane):
            self._timeline.tell(index, PROGRESS[progress], job.job_id)

    def _refused(
        self, index: int, lane: str, info: ErrorInfo, request_id: str | None, now: float
    ) -> None:
        if self._deliveries.is_open(index, lane):
            self._tell_error(index, lane, info, request_id, None)
        self._end(index, lane, End(None, None, info.code, 0), now)

    def _tell_error(
        self, index: int, lane: str, info: ErrorInfo, request_id: str | None, job_id: JobId | None
    ) -> None:
        self._send(error_message(info, index, lane, request_id, job_id))
        if self._timeline is not None:
            self._timeline.tell(index, UiEventName.ERROR, job_id or None, info.code)

    def _end(
        self, index: int, lane: str, end: End, now: float, job_id: JobId | None = None
    ) -> None:
        """An utterance has its end for a target."""
        if self.state is not OVER:
            self._deliveries.end(index, lane, end, job_id)
            self._moved(now)

    def _moved(self, now: float) -> None:
        """Something went out to the client: there may be room for what waits, or all is done."""
        if self.state is OVER:
            return
        if self._waiting:
            self._submit_waiting(now)
        if self._pressed or len(self._deliveries.targets_left) * 2 >= self._rules.max_inflight:
            self._press()
        self.charge()
        if self.state is CLOSING or self._draining:
            self._finish_if_done()

    # --- time and bounds ------------------------------------------------------------------------

    def _press(self) -> None:
        message = self._pressure.now(len(self._deliveries.targets_left))
        if message is not None:
            self._pressed = True
            self._send(message)

    def charge(self) -> bool:
        """Charge the process's budget for what this session keeps; False when it is too much."""
        deliveries = self._deliveries
        kept = (
            self._waiting_bytes
            + self._working_bytes
            + deliveries.held_bytes
            + deliveries.unacknowledged.size_bytes
        )
        if self.input.segmenter is not None:
            kept += self.input.segmenter.buffered_bytes
        if deliveries.audience is not None:
            kept += deliveries.audience.size_bytes
        change = kept - self._charged_bytes
        if not change or self.state is OVER:
            return True
        self._charged_bytes = kept
        return self._budget.change(change)

    # --- the end --------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take in nothing more; once all that was said has been delivered, the client is sent on.

        What it says from now on it says again to the next instance.
        """
        if self.state is OVER:
            return
        if self.link is not None:
            # A client that is away still has what it said last, and does not hear of it.
            self.input.cut_rest()
            self._rest_is_cut = True
        self._draining = True
        self.input.drain()
        self._finish_if_done()

    def abandon(self) -> None:
        """The client did not come back: its jobs are cancelled, its open audio is dropped."""
        if self.state is OVER:
            return
        dropped = len(self._waiting) + self.input.has_begun
        jobs, watched = self._deliveries.jobs(), list(self._watched.values())
        self._over(release=True)
        for job in jobs:
            self._dispatcher.stop_job(job, Stop(Outcome.CANCELLED, CANCELLED))
        for job_id in watched:
            self._dispatcher.run(self._cancel(job_id))
        if dropped:
            self._context.metrics.audio_ignored.labels("session_gone").inc(dropped)

    async def _cancel(self, job_id: JobId) -> None:
        try:
            await self._dispatcher.cancel(job_id)
        except (errors.JobEnded, errors.NotFound):
            return
        except errors.DependencyDown:
            log.warning_limited("job_not_cancelled", key="cancel", every_seconds=10, job_id=job_id)

    async def end(self) -> None:
        """End it now, by order: the client is told and closed, and its jobs are cancelled."""
        link = self.link
        if link is not None:
            says = f"Session {self.session_id} was ended by order of its tenant or an operator."
            link.send(Error(errors.SessionClosed.code, says))
            link.ended()
        self.abandon()

    def stop(self) -> None:
        """The server stops: nothing more becomes due."""
        self.input.stop()
        if self.past is not None:
            self.past.stop()

    def _finish_if_done(self) -> None:
        """End a closing session once everything was sent, and send a draining one's client on.

        While its client is away it waits: the client may come back for its last results.
        """
        link = self.link
        if self.input.is_judging:
            return
        if self.state is CLOSING and link is not None and not self._deliveries.targets_left:
            link.send(SessionCloseAck())
            link.finished()
            self._over(release=True)
        elif self._draining and self.state is not OVER:
            if link is not None and (self._deliveries.targets_left or not self._rest_is_cut):
                return
            self._let_go()
            if link is not None:
                link.draining()

    def _let_go(self) -> None:
        """Leave the session to another instance: its jobs go on, and are no concern of this one."""
        self.handed_on = True
        if self.past is not None:
            self.past.store_now()
        for job in self._deliveries.jobs():
            job.owner = None
        self._over(release=False)

    def _over(self, *, release: bool) -> None:
        """The session ends; `release` when no client will come for its results."""
        self.state = OVER
        self.stop()
        if self.writer is not None:
            self.writer.stop()
        kept = self._deliveries.close()
        if release:
            for job in kept:
                self._context.ledger.release_now(job)
        self._budget.change(-self._charged_bytes)
        self._charged_bytes = 0
        self._waiting.clear()
        self._watched.clear()
        self.link = self._deliveries.link = None
        if self._deliveries.audience is not None:
            self._deliveries.audience.close(moved=self.handed_on)
            self._deliveries.audience = None
        self._timeline = None
        if self._spans is not None:
            self._spans.close()
        self._on_over(self)


def _ignore() -> None:
    """No other record needs a look."""


def _closing() -> errors.SessionClosed:
    return errors.SessionClosed("The session is closing; open another one.")
