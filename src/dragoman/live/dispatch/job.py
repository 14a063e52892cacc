"""The one object a job is, from its submission to the day it is forgotten.

Every room that touches a job changes fields of this object; each field has one owner, and the
comments say which. Immutable records are made only at the borders, by `record` and `times_of`:
for callers of the API, for stored session records, and for other instances.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Protocol

import msgspec

from dragoman.errors import DragomanError
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
from dragoman.live.dispatch.orders import Progress
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
    ErrorInfo,
    JobClass,
    JobPartial,
    JobResult,
    JobState,
    Outcome,
    RunningJob,
)
from dragoman.live.snapshot import Requirement

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from dragoman.live.dispatch.ports import SessionRecord
    from dragoman.live.dispatch.routes import Route
    from dragoman.live.dispatch.selection import Decision, Search
    from dragoman.observability import Trace


OnEnd = Callable[["Job"], None]
OnSubmitted = Callable[["Job", DragomanError | None], None]
"""Called with the request's job, and with the refusal if it was refused."""
OnPartial = Callable[[JobPartial], None]
OnProgress = Callable[[Progress, JobId], None]

Mask = tuple[int, int]
"""(cell, candidates): bit i of the candidates is the seat with index i."""

Demand = tuple[Requirement, NodeId | None, TenantId | None]
"""What a job asks for, the node it names, and whose job it is if it names one: a node may take
jobs of one tenant only. Jobs of one demand find the same slots taken."""


class Step(IntEnum):
    """How far the current attempt is. The numbers rise: a step never goes back."""

    NONE = 0
    """The job has no attempt."""
    DISPATCHED = 1
    ACCEPTED = 2
    RUNNING = 3


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


class Job(msgspec.Struct, eq=False):
    """A job: what was asked for, the attempt that is out, and how it ended."""

    # --- what was asked for: set by the submitter, changed by none ------------------------------
    spec: JobSpec
    input: JobInput | None
    """None once the job has ended."""
    body_hash: bytes
    requirement: Requirement
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
    writer: SessionRecord | None = None
    """Keeps its session's record where instances share it. None where there is none to keep, and
    once the end has its turn."""

    # --- the ledger's ---------------------------------------------------------------------------
    job_id: JobId = JobId("")
    """Empty until the request is claimed."""
    created_ms: int = 0
    step: Step = Step.NONE
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
    shown: Step = Step.NONE
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
    trace: Trace | None = None
    parent_span: SpanContext | None = None

    @property
    def tenant(self) -> TenantId:
        return self.spec.tenant

    @property
    def is_batch(self) -> bool:
        """Batch work waits until it is cancelled, and its time runs from each dispatch."""
        return self.spec.job_class is JobClass.BATCH

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
        return self.step is not Step.NONE

    @property
    def kept_bytes(self) -> int:
        """What the process keeps for the job; a session counts what it has said itself."""
        if self.spec.session_id is not None or self.input is None:
            return 0
        return self.input.size_bytes


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
    job.step = Step.NONE
