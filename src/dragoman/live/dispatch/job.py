"""The one object a job is, from its submission to the day it is forgotten.

Every room that touches a job changes fields of this object; each field has one owner, and the
comments say which. Immutable records are made only at the borders, by `record` and `times_of`:
for callers of the API, for stored session records, and for other instances.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from functools import lru_cache
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from opentelemetry.trace import SpanContext

from dragoman.errors import DragomanError
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, RequestId, SessionId, TenantId
from dragoman.live.ledger import (
    AttemptRecord,
    JobInput,
    JobRecord,
    JobSpec,
    Owner,
    PastAttempt,
    Times,
)
from dragoman.live.protocol import (
    AttemptState,
    Cut,
    ErrorInfo,
    GlossaryTerm,
    JobAssign,
    JobClass,
    JobPartial,
    JobResult,
    JobState,
    Mode,
    NamedServices,
    Outcome,
    PastUtterance,
    RunningJob,
    normal_language,
    same_language,
)
from dragoman.live.snapshot import JobRequirement, Pair

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from dragoman.live.dispatch.canary import CanaryRoute
    from dragoman.live.dispatch.ports import SessionRecord
    from dragoman.live.dispatch.routes import Route
    from dragoman.live.dispatch.selection import Decision, Search
    from dragoman.observability import Trace


_RESULT_BYTES = 512
"""What a result weighs beside its texts and audio."""

AUTO_TARGET = "*"
"""The target a two_way_auto job is claimed under: one job, whichever way it goes."""

_encoder = msgspec.msgpack.Encoder()


class Progress(StrEnum):
    """Steps of a job that a client may watch."""

    DISPATCHED = "dispatched"
    ACCEPTED = "accepted"
    RUNNING = "running"
    FAILOVER = "failover"


OnRecord = Callable[[JobRecord], None]
OnPartial = Callable[[JobPartial], None]
OnProgress = Callable[[Progress, JobId], None]


class JobOrder(msgspec.Struct, frozen=True):
    """A job that a caller asks for."""

    spec: JobSpec
    input: JobInput
    may_wait: bool = False
    """Wait in line when no slot is free. Batch work always does."""
    began: float | None = None
    """When its input began, in monotonic seconds: a sentence that goes on stays with its node,
    however long its rest is."""
    on_end: OnRecord | None = None
    """Called once, when the job has its end."""
    on_partial: OnPartial | None = None
    """Called with what the node has recognised so far."""
    on_progress: OnProgress | None = None
    """Called when the job takes a step."""
    parent_span: SpanContext | None = None
    """The span the job is a part of, for tracing."""


def pairs_of(spec: JobSpec) -> tuple[Pair, ...]:
    """The language pairs whose pools a node must be in, as they were written."""
    if spec.mode is Mode.TWO_WAY_AUTO and spec.lang_a and spec.lang_b:
        return (spec.lang_a, spec.lang_b), (spec.lang_b, spec.lang_a)
    if spec.auto_langs:
        return tuple((source, spec.tgt_lang) for source in spec.auto_langs)
    return ((spec.src_lang, spec.tgt_lang),)


def utterance_request_id(session_id: SessionId, utterance_index: int) -> RequestId:
    """The request_id of an utterance whose client gave none."""
    return RequestId(f"{session_id}/{utterance_index}")


def body_hash(spec: JobSpec, job_input: JobInput) -> bytes:
    """What must be the same for a repeated request_id to be the same request."""
    # A session sends an utterance under this name once, and always with the same input, unless
    # another instance cuts its audio anew; the length tells. Hashing seconds of audio would cost
    # about half as much as a whole job of text.
    if (
        spec.session_id is not None
        and spec.utterance_index is not None
        and spec.request_id == utterance_request_id(spec.session_id, spec.utterance_index)
    ):
        return named_hash(demand_hash(spec), job_input)
    return blake2b(_encoder.encode((*_demand(spec), job_input)), digest_size=16).digest()


def demand_hash(spec: JobSpec) -> bytes:
    """What a job asks for, apart from its input."""
    return _hash_of(_demand(spec))


def named_hash(demand: bytes, job_input: JobInput) -> bytes:
    """The body of an utterance that its session named."""
    audio = job_input.audio
    return demand if audio is None else demand + len(audio).to_bytes(8, "big")


def _demand(spec: JobSpec) -> tuple[object, ...]:
    demand = (
        normal_language(spec.src_lang),
        spec.pipeline,
        spec.features,
        spec.job_class,
        spec.mode,
        normal_language(spec.lang_a) if spec.lang_a else None,
        normal_language(spec.lang_b) if spec.lang_b else None,
        tuple(map(normal_language, spec.auto_langs)),
    )
    # Requests without a choice keep the hash that earlier versions gave them.
    return (*demand, spec.services) if spec.services else demand


@lru_cache(maxsize=1024)
def _hash_of(demand: tuple[object, ...]) -> bytes:
    """Most utterances ask for the same as the one before."""
    return blake2b(_encoder.encode(demand), digest_size=16).digest()


OnEnd = Callable[["Job"], None]
OnSubmitted = Callable[["Job", DragomanError | None], None]
"""Called with the request's job, and with the refusal if it was refused."""

Mask = tuple[int, int]
"""(cell, candidates): bit i of the candidates is the seat with index i."""

Demand = tuple[JobRequirement, NodeId | None, TenantId | None]
"""What a job asks for, the node it names, and whose job it is if it names one: a node may take
jobs of one tenant only. Jobs of one demand find the same slots taken."""


class Step(IntEnum):
    """How far the current attempt is. The numbers rise: a step never goes back."""

    NONE = 0
    """The job has no attempt."""
    DISPATCHED = 1
    ACCEPTED = 2
    RUNNING = 3


# Python 3.11 takes longer to look a member of an enum up on its class than to call a function, so
# those that every job meets have names of their own.
SUCCESS: Final = Outcome.SUCCESS
LIVE: Final = JobClass.LIVE
BATCH: Final = JobClass.BATCH
ONE_WAY: Final = Mode.ONE_WAY
NOT_CUT: Final = Cut.NONE
NOT_OUT: Final = Step.NONE
DISPATCHED: Final = Step.DISPATCHED
ACCEPTED: Final = Step.ACCEPTED
RUNNING: Final = Step.RUNNING


class Seat:
    """A node's place in its cell: what it may take, and what it holds.

    The memory ledger owns every field.
    """

    __slots__ = (
        "alive_until_ms",
        "bit",
        "cell",
        "drained",
        "facts",
        "held",
        "index",
        "mean_ms",
        "node_id",
        "online",
        "owner",
        "slots",
    )

    def __init__(self, node_id: NodeId, cell: int, index: int, owner: Owner, slots: int) -> None:
        self.node_id = node_id
        self.cell = cell
        self.index = index
        self.bit = 1 << index
        self.owner = owner
        self.slots = slots
        self.held: dict[AttemptId, Job | Leaving] = {}
        """The attempts that hold its slots: jobs, and attempts that their jobs have left."""
        self.alive_until_ms = 0
        self.online = True
        self.drained = False
        self.mean_ms = 0.0
        """Mean service time of what the node did lately; 0 while unknown."""
        self.facts = b""

    @property
    def held_count(self) -> int:
        return len(self.held)

    def takes(self, now_ms: int) -> bool:
        """Whether a slot of it may be granted."""
        return (
            self.online
            and not self.drained
            and self.alive_until_ms > now_ms
            and len(self.held) < self.slots
        )


class Job(msgspec.Struct, eq=False, gc=False):
    """A job: what was asked for, the attempt that is out, and how it ended.

    A busy instance keeps hundreds of thousands that have ended, and the collector of cycles would
    stop the loop for seconds to look into each: it does not (`gc=False`). So a job that is over,
    or that another object stands for, lets go of its session, its search and its callbacks.
    """

    # --- what was asked for: set by the submitter, changed by none ------------------------------
    spec: JobSpec
    input: JobInput | None
    """None once the job has ended."""
    body_hash: bytes
    requirement: JobRequirement
    route: Route | None
    started: float
    """When it was submitted, in monotonic seconds."""
    began: float
    """When its input began: a sentence that goes on stays with its node."""
    may_wait: bool
    target_key: str
    """The target as requests are bound by it: ``EN`` and ``en`` are one language."""
    owner: JobOwner | None = None
    """The session that it is for; its end is told there. None once it was told."""
    lane: str = ""
    """The target whose order its result belongs to."""
    watched: bool = False
    """Its owner wants to hear of every step."""
    is_numbered: bool = False
    """Its session named the request by the utterance's number, which it gives once: no other
    request can have the name."""
    speech_ended: float | None = None
    """When the last speech of its input came, in monotonic seconds; None where it is not known."""
    text_known: float | None = None
    """When the client was told its final recognised text, before its end."""
    writer: SessionRecord | None = None
    """Keeps its session's record where instances share it. None where there is none to keep, and
    once the end has its turn."""

    # --- the ledger's ---------------------------------------------------------------------------
    job_id: JobId = JobId("")
    """Empty until the request is claimed."""
    created_ms: int = 0
    step: Step = NOT_OUT
    attempt_id: AttemptId = AttemptId("")
    """The current attempt; after the end, the one that ended the job."""
    seat: Seat | None = None
    epoch: int = 0
    """The connection that speaks for the attempt."""
    acked: bool = False
    """That connection has acknowledged or listed the attempt."""
    dispatched_ms: int = 0
    accepted_ms: int = 0
    running_ms: int = 0
    finished_ms: int = 0
    past: list[PastAttempt] | None = None
    """Earlier attempts; None unless there was a failover."""
    used: int = 0
    """Attempts that count against failover_max_attempts, the current one too."""
    preemptions: int = 0
    outcome: Outcome | None = None
    """None until the end."""
    output: JobResult | None = None
    error: ErrorInfo | None = None
    delivery_seq: int = 0
    """The number under which the shared record has its end delivered; 0: none yet."""
    released: bool = False
    """The result was let go of."""
    named: AttemptId = AttemptId("")
    """The attempt that the shared record names, in this cell; no slot need be held for it."""
    named_cell: int = 0
    named_idle: bool = False
    """No slot was ever held for that attempt: one may be asked for again without a new name."""
    maybe_named: tuple[AttemptId, ...] = ()
    """Attempts that the shared record may name: the answers did not come."""
    left: PastAttempt | None = None
    """How the attempt that the shared record names ended."""
    claimed: float = 0.0
    """When the shared record was last asked for this instance's claim, and granted it."""
    driver_instance: InstanceId = InstanceId("")
    """Which instance drives it, where it is another."""
    lease_until_ms: int = 0
    release_at_ms: int = 0
    forget_at_ms: int = 0

    # --- the driver's ---------------------------------------------------------------------------
    driven: bool = True
    """This instance sees to its end."""
    in_flight: bool = False
    """The ledger works on it; what happens meanwhile is remembered, and done after the answer."""
    stop: Stop | None = None
    """While in flight: the job is to end."""
    cells: tuple[Mask, ...] = ()
    """The candidates that the ledger is asked for a slot of, in this order."""
    excluded: frozenset[NodeId] = frozenset()
    decision: Decision | None = None
    """How its node is being chosen, where that took no search."""
    search: Search | None = None
    """The search that goes on for it."""
    context: tuple[PastUtterance, ...] = ()
    """What was said before it in its session; a node that takes it over is told the same."""
    canary: JobRequirement | None = None
    """What the nodes of the canary must have that it was drawn for; None: it was not drawn, or
    has been there."""
    drawn_for: CanaryRoute | None = None
    """The route of the canary that it was drawn for, also when it went elsewhere."""
    on_canary: bool = False
    """Its attempt is a canary's."""
    left_canary: bool = False
    """A canary failed it."""
    wakes: int = 0
    """How often slots had come free when it began to look."""
    entered: bool = False
    """It is counted among the jobs that this instance drives."""
    waiting: bool = False
    refusal: DragomanError | None = None
    """Why it waits."""
    pending_until: float = inf
    """Until when it may wait for a slot."""
    heir_until: float = inf
    """Until when it waits for the slot of a batch attempt that gives way."""
    total_until: float = inf
    run_until: float = inf
    no_victim_until: float = 0.0
    """No batch attempt could give way a moment ago: it is not asked again before this."""
    was_due: bool = False
    """A time was up while the ledger worked on it."""
    look_at: float = inf
    """When the timeouts look at it next."""
    dispatched: float = 0.0
    """When its node was told, in monotonic seconds."""
    shown: Step = NOT_OUT
    """The last step that watchers were told of."""
    on_submitted: OnSubmitted | None = None
    """Called once, when its node was told, it waits, it was found, or it was refused."""
    refused: DragomanError | None = None
    """What its submitter is told once it has ended: it was never tried."""
    on_end: list[OnEnd] | None = None
    submitter_waits: bool = False
    """The first of `on_end` is the submitter's own."""
    on_partial: OnPartial | None = None
    on_progress: OnProgress | None = None
    on_placed: list[Callable[[], None]] | None = None
    """Called once, when a node was told of the job or the job ended without one."""
    weight: int = 0
    """What the process's budget was charged for it."""
    output_bytes: int = 0
    """What its result counts for in what the process keeps; 0: it is not counted."""
    trace: Trace | None = None
    parent_span: SpanContext | None = None

    @property
    def tenant(self) -> TenantId:
        return self.spec.tenant

    @property
    def is_batch(self) -> bool:
        """Batch work waits until it is cancelled, and its time runs from each dispatch."""
        return self.spec.job_class is BATCH

    @property
    def demand(self) -> Demand:
        named = self.spec.preferred_node_id
        return self.requirement, named, None if named is None else self.spec.tenant

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def is_out(self) -> bool:
        """A node has the job, or is about to be told."""
        return self.step is not NOT_OUT

    @property
    def kept_bytes(self) -> int:
        """What the process keeps for the job; a session counts what it has said itself."""
        if self.spec.session_id is not None or self.input is None:
            return 0
        return self.input.size_bytes


def weight_of(output: JobResult | None) -> int:
    """About how many bytes a result takes while it is kept."""
    if output is None:
        return _RESULT_BYTES
    audio, heard, translated = output.tts_audio, output.text_asr, output.text_translated
    return (
        _RESULT_BYTES
        + (len(audio) if audio else 0)
        + (len(heard) if heard else 0)
        + (len(translated) if translated else 0)
    )


class JobOwner(Protocol):
    """A session, as its jobs know it."""

    def job_ended(self, job: Job, now: float) -> None: ...
    def job_refused(self, job: Job, error: DragomanError, now: float) -> None: ...
    def job_found(self, job: Job, known: Job, now: float) -> None: ...
    def job_forgotten(self, job: Job, job_input: JobInput, now: float) -> None: ...
    def job_partial(self, job: Job, message: JobPartial) -> None: ...
    def job_progressed(self, job: Job, progress: Progress) -> None: ...


class Stop(msgspec.Struct, frozen=True):
    """A job is to end, whatever its attempt does."""

    outcome: Outcome
    error: ErrorInfo


class Leaving(msgspec.Struct, eq=False):
    """An attempt that its job has left. It holds its slot until the node has let go of it."""

    attempt_id: AttemptId
    job_id: JobId
    seat: Seat
    epoch: int
    job_class: JobClass
    error: ErrorInfo
    """Why it was cancelled."""
    due_ms: int
    """When the node's silence is looked into."""
    acked: bool
    times: Times
    asked: bool = False
    """Its node was asked to report after the grace had passed."""
    heir: Job | None = None
    """The live job that gets the slot."""

    @property
    def running(self) -> RunningJob:
        return RunningJob(self.job_id, self.attempt_id)


# --- borders -----------------------------------------------------------------------------------

_STATES = {
    Step.DISPATCHED: AttemptState.DISPATCHED,
    Step.ACCEPTED: AttemptState.ACCEPTED,
    Step.RUNNING: AttemptState.RUNNING,
}


def attempt_state(job: Job) -> AttemptState | None:
    """How far the current attempt is; None when there is none."""
    return _STATES.get(job.step)


def times_of(job: Job) -> Times:
    """When the current attempt took its steps."""
    return Times(job.dispatched_ms, job.accepted_ms, job.running_ms, job.finished_ms)


def closed_attempt(
    job: Job, outcome: Outcome, error: ErrorInfo | None, counts: bool
) -> PastAttempt:
    """The current attempt, as its job remembers it once it is over."""
    seat = job.seat
    assert seat is not None, "only a job that is out has an attempt to close"
    return PastAttempt(
        job.attempt_id,
        seat.cell,
        seat.node_id,
        counts=counts,
        outcome=outcome,
        error=error,
        times=times_of(job),
    )


def attempts_of(job: Job) -> tuple[PastAttempt, ...]:
    """Every attempt of the job, the current or last one included."""
    past = tuple(job.past or ())
    if job.seat is None:
        return past
    last = PastAttempt(
        job.attempt_id,
        job.seat.cell,
        job.seat.node_id,
        outcome=job.outcome,
        error=job.error if job.outcome is not None else None,
        times=times_of(job),
    )
    return (*past, last)


def record(job: Job, instance_id: InstanceId, now: float, now_ms: int) -> JobRecord:
    """The job as it is told to callers and kept by others."""
    if job.outcome is None:
        state = JobState.DISPATCHED if job.is_out else JobState.CREATED
    else:
        state = JobState.RELEASED if job.released else JobState.FINISHED
    total = job.total_until
    return JobRecord(
        job_id=job.job_id,
        spec=job.spec,
        state=state,
        claimed_by=instance_id,
        created_at_ms=job.created_ms,
        claim_until_ms=now_ms,
        total_until_ms=None if total == inf else now_ms + int((total - now) * 1000),
        attempts=attempts_of(job),
        current=job.attempt_id if job.is_out else None,
        outcome=job.outcome,
        error=job.error,
        output=job.output,
        finished_at_ms=job.finished_ms if job.outcome is not None else 0,
        preemptions=job.preemptions,
    )


def attempt_record(held: Job | Leaving) -> AttemptRecord:
    """An attempt that holds a slot, as it is told to callers."""
    seat = held.seat
    assert seat is not None, "what holds a slot has a seat"
    if isinstance(held, Leaving):
        return AttemptRecord(
            attempt_id=held.attempt_id,
            job_id=held.job_id,
            cell=seat.cell,
            node_id=seat.node_id,
            owner=seat.owner,
            job_class=held.job_class,
            state=AttemptState.CANCELLING,
            acked=held.acked,
            due_at_ms=held.due_ms,
            asked=held.asked,
            times=held.times,
            error=held.error,
        )
    return AttemptRecord(
        attempt_id=held.attempt_id,
        job_id=held.job_id,
        cell=seat.cell,
        node_id=seat.node_id,
        owner=seat.owner,
        job_class=held.spec.job_class,
        state=_STATES[held.step],
        acked=held.acked,
        due_at_ms=0,
        times=times_of(held),
        preemptions=held.preemptions,
    )


def leave_attempt(job: Job, outcome: Outcome, error: ErrorInfo | None, *, counts: bool) -> None:
    """The current attempt is over and the job is not: it has none now."""
    past = job.past
    if past is None:
        past = job.past = []
    job.left = closed_attempt(job, outcome, error, counts)
    past.append(job.left)
    if not counts:
        job.used -= 1
    job.attempt_id = AttemptId("")
    job.seat = None
    job.step = NOT_OUT


def forget_waiters(job: Job) -> None:
    """Nothing more is told of the job, or another object stands for it."""
    job.on_end = job.on_partial = job.on_progress = None
    job.search = None
    # An exception that was raised leads to all that its functions held, jobs too.
    job.refusal = job.refused = None


def leave_canary(job: Job) -> None:
    """The attempt of a canary failed: it does not count, and the job goes to no canary again."""
    job.on_canary, job.canary, job.left_canary = False, None, True
    past = job.past
    if past and past[-1].counts:
        last = past[-1]
        past[-1] = msgspec.structs.replace(last, counts=False)
        job.used -= 1
        if job.left is last:
            job.left = past[-1]


def assignment_of(
    job_id: JobId,
    spec: JobSpec,
    job_input: JobInput,
    attempt_id: AttemptId,
    deadline_ms: int,
    services: NamedServices | None = None,
    glossary: tuple[GlossaryTerm, ...] = (),
    context: tuple[PastUtterance, ...] = (),
    traceparent: str | None = None,
) -> JobAssign:
    """The message that gives an attempt of any job to a node.

    services are those of a canary; None: those that the job asks for.
    """
    # In the order of the fields, without their names: msgspec takes ten times as long with them.
    return JobAssign(
        job_id,
        attempt_id,
        spec.trace_id or job_id,
        spec.job_class,
        spec.src_lang,
        spec.tgt_lang if spec.mode is ONE_WAY else _target(spec),
        spec.mode,
        spec.pipeline,
        spec.features,
        spec.padding_ms,
        spec.cut,
        deadline_ms,
        spec.lang_a,
        spec.lang_b,
        spec.auto_langs,
        job_input.audio,
        spec.audio_format,
        spec.sample_rate,
        job_input.text,
        spec.session_id,
        spec.utterance_index,
        dict(spec.services if services is None else services),
        context,
        glossary,
        traceparent,
    )


def _target(spec: JobSpec) -> str:
    """What the node translates into; of two ways, the one that the source is not."""
    if spec.mode is not Mode.TWO_WAY_AUTO or not (spec.lang_a and spec.lang_b):
        return spec.tgt_lang
    return spec.lang_a if same_language(spec.src_lang, spec.lang_b) else spec.lang_b
