"""What is asked of shards and cells, what they answer, and what they keep."""

from __future__ import annotations

import msgspec

from dragoman.errors import RateLimited
from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    SessionId,
    TenantId,
)
from dragoman.live.ledger import (
    Ending,
    Inherited,
    JobInput,
    JobSpec,
    Keep,
    Owner,
    PastAttempt,
    SeatRecord,
    Strategy,
    Times,
)
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobResult,
    Outcome,
    RunningJob,
    SessionInit,
)

# --- sessions -----------------------------------------------------------------------------------

MOST_TARGETS_ENDED = 32
"""How many targets' last ends are kept; utterances may name targets of their own without end."""

MARKS_PER_DELIVERY = 16
"""For each unacknowledged delivery that is kept, so many older ones keep their number only."""

DROPPED = RateLimited.code
"""The reason given for a delivery that was not acknowledged and could not be kept."""


class SessionOwner(msgspec.Struct, frozen=True):
    """The connection that speaks for a session; a newer one has a higher epoch."""

    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int


class Holding(msgspec.Struct, frozen=True):
    """A session in the hands of its owner: what is named with every write."""

    session_id: SessionId
    owner: SessionOwner
    seen: int
    """The newest revision that the owner knows to be stored."""


class OpenUtterance(msgspec.Struct, frozen=True):
    """An utterance that has not been delivered for one of its targets."""

    index: int
    target: str
    job_id: JobId


class Delivery(msgspec.Struct, frozen=True):
    """What takes its turn for a target: a job that has ended, or the reason for none."""

    index: int
    target: str
    job_id: JobId | None
    reason: str | None = None


class SentDelivery(msgspec.Struct, frozen=True):
    """A delivery with its number, until it is acknowledged."""

    seq: int
    delivery: Delivery


class StoredSession(msgspec.Struct, frozen=True):
    """A session as the next owner needs it."""

    session_id: SessionId
    tenant: TenantId
    secret_hash: str
    init: SessionInit
    owner: SessionOwner
    revision: int = 1
    next_chunk_seq: int = 0
    half_sample: bytes = b""
    next_index: int = 0
    next_seq: int = 1
    open: tuple[OpenUtterance, ...] = ()
    """In the order of utterances, then of targets."""
    unacknowledged: tuple[SentDelivery, ...] = ()
    ended: dict[str, int] = {}
    """The last utterance that was delivered for a target; none up to it opens again."""


class TakenSession(msgspec.Struct, frozen=True):
    """A session that has a new owner."""

    session: StoredSession
    before: SessionOwner


class ChangedHands(msgspec.Struct, frozen=True):
    """The owner is no longer the one that the session was to be taken from."""


class NotOwner(msgspec.Struct, frozen=True):
    """The session is another connection's, or its record is older than what the asker has seen;
    nothing was written."""

    owner: SessionOwner | None
    """None: there is no such session."""


class Delivered(msgspec.Struct, frozen=True):
    """The numbers, in the order that was asked for."""

    seqs: tuple[int | None, ...]
    """None: its turn has not come. 0: it was delivered, and has been acknowledged since."""
    revision: int


# --- opening and closing jobs -------------------------------------------------------------------


class NewJob(msgspec.Struct, frozen=True):
    """A job that is to be made of a request."""

    job_id: JobId
    """Made by `new_job_id_for`: it names the shard and the request."""
    spec: JobSpec
    input: JobInput
    body_hash: bytes
    target_key: str
    attempt_id: AttemptId
    """The attempt that a slot is asked for at the same time."""
    cell: int
    total_ms: int | None
    """How long it has; None for batch work, which waits."""
    refused: ErrorInfo | None = None
    """It is ended as it is opened."""


class UtteranceOpening(msgspec.Struct, frozen=True):
    """The jobs of one utterance."""

    jobs: tuple[NewJob, ...]
    instance_id: InstanceId
    claim_ms: int
    keep: Keep
    held: Holding | None = None
    """The session that the utterance is of."""
    elsewhere: tuple[OpenUtterance, ...] = ()
    """Jobs of the utterance that lie in another shard, since the client named the request: they
    are opened there, and here only noted as open."""
    index: int = 0
    next_chunk_seq: int = 0
    half_sample: bytes = b""


class JobOpened(msgspec.Struct, frozen=True):
    """The request is this job; for one that is refused, its delivery number if its turn is now."""

    seq: int | None = None


class JobFound(msgspec.Struct, frozen=True):
    """The request was made before: its job."""

    job: StoredJob
    same_body: bool


class Opened(msgspec.Struct, frozen=True):
    """Each job's answer, in the order that was asked for."""

    at_ms: int
    jobs: tuple[JobOpened | JobFound, ...]
    revision: int = 0


class Behind(msgspec.Struct, frozen=True):
    """The session's record expects another utterance."""

    next_index: int
    next_chunk_seq: int


class Move(msgspec.Struct, frozen=True):
    """A job goes on with another attempt."""

    job_id: JobId
    seen: AttemptId
    attempt_id: AttemptId
    cell: int
    instance_id: InstanceId
    claim_ms: int
    ended: PastAttempt | None = None
    """How the attempt that was seen ended; None: no slot was ever held for it."""
    preempted: bool = False
    total_ms: int | None = None
    """Of batch work: its time begins anew with this dispatch."""


class MovedOn(msgspec.Struct, frozen=True):
    """The record names the new attempt."""

    at_ms: int


class Closing(msgspec.Struct, frozen=True):
    """A job ends."""

    job_id: JobId
    attempt_id: AttemptId | None
    """None: whatever attempt the record names."""
    ending: Ending
    times: Times
    node_id: NodeId | None
    keep: Keep
    held: Holding | None = None
    delivery: Delivery | None = None
    """What takes its turn in the same step, if nothing before it is open."""
    last: PastAttempt | None = None
    """The attempt that the record names, where the job outlived it and has no other."""


class Closed(msgspec.Struct, frozen=True):
    """The job has its end, by this step."""

    at_ms: int
    seq: int | None = None
    """The delivery number; None: its turn has not come, or the session is another's."""
    revision: int = 0
    """The session's; 0: the session is another's, its record is older than what the asker has
    seen, or it lies in another shard."""


class NotCurrent(msgspec.Struct, frozen=True):
    """The record names another attempt."""

    job: StoredJob


class HasEnded(msgspec.Struct, frozen=True):
    """The job had its end before."""

    job: StoredJob


class StillDriven(msgspec.Struct, frozen=True):
    """The claim of the instance that drives the job has not run out."""

    job: StoredJob


class NoJob(msgspec.Struct, frozen=True):
    """The job is not known, or not any more."""


class TakenOver(msgspec.Struct, frozen=True):
    """The asker drives the job from now on."""

    work: OpenWork


class StoredJob(msgspec.Struct, frozen=True):
    """A job as its shard keeps it."""

    job_id: JobId
    spec: JobSpec
    body_hash: bytes
    instance_id: InstanceId
    """Who drives it."""
    attempt_id: AttemptId
    cell: int
    created_ms: int
    claim_until_ms: int
    total_until_ms: int | None
    past: tuple[PastAttempt, ...] = ()
    preemptions: int = 0
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    node_id: NodeId | None = None
    times: Times = Times()
    released: bool = False
    """Its payload is gone: the retention has ended, or the delivery was acknowledged and the
    binding's lease has ended."""


class OpenWork(msgspec.Struct, frozen=True):
    """An open job with its input."""

    job: StoredJob
    input: JobInput


# --- cells --------------------------------------------------------------------------------------


class SlotAsk(msgspec.Struct, frozen=True):
    """A slot of one cell's candidates is asked for."""

    cell: int
    candidates: int
    """Bit i is the seat with index i."""
    attempt_id: AttemptId
    job_id: JobId
    job_class: JobClass
    instance_id: InstanceId
    strategy: Strategy
    headroom: float
    """The share of the candidates' slots that batch work leaves free."""
    ack_ms: int
    lease_ms: int
    run_ms: int
    preemptions: int = 0
    max_preemptions: int = 0
    """To preempt: batch attempts whose jobs gave way this often are left alone."""
    grace_ms: int = 0
    """To preempt: how long the node has to let go."""
    near: int = 0
    """Candidates that come first, while one of them has a free slot; 0: none does."""
    waits_for: str = ""
    """The pair that the instance waits for where there is no slot; empty: it does not wait."""


class Granted(msgspec.Struct, frozen=True):
    """A slot is held for the attempt."""

    cell: int
    index: int
    node_id: NodeId
    owner: Owner
    at_ms: int


class Full(msgspec.Struct, frozen=True):
    """No candidate had a slot for this class."""

    cold: bool = False
    headroom: bool = False
    """Slots were free, but kept back for live work."""


class Gone(msgspec.Struct, frozen=True):
    """The attempt is over, or must not be held any more."""


class Preempting(msgspec.Struct, frozen=True):
    """A batch attempt is being cancelled; its slot will pass to the asker."""

    victim: RunningJob
    victim_instance: InstanceId
    node_id: NodeId
    owner: Owner
    at_ms: int


class NoVictim(msgspec.Struct, frozen=True):
    """No batch attempt may be cancelled on the candidates."""


class Finish(msgspec.Struct, frozen=True):
    """How an attempt ended, by its node's word."""

    outcome: Outcome
    keep: JobResult | None = None
    """The result, where the driver is another instance; else it is not stored twice."""
    error: ErrorInfo | None = None
    due_ms: int = 0
    """With a result that is kept: when the sweep may take it to its job. Without: how long a
    tombstone stays; 0 where no second `reserve` was ever sent, so that none can come late."""


class FreedSlot(msgspec.Struct, frozen=True):
    """A slot was given back."""

    job_id: JobId
    times: Times
    slots: int = 1
    """0: its seat grants none now, or an heir has it."""
    inherited: tuple[Inherited, ...] = ()
    wake: InstanceId | None = None
    """The instance that has waited longest for such a slot."""


class LateFinish(msgspec.Struct, frozen=True):
    """The attempt was being cancelled: its slot is free now, its outcome is not used."""

    freed: FreedSlot


class CancelWon(msgspec.Struct, frozen=True):
    """The attempt's outcome no longer counts; its node is to be told."""

    job_id: JobId
    node_id: NodeId
    owner: Owner
    times: Times


class AlreadyEnded(msgspec.Struct, frozen=True):
    """The node was faster."""

    attempt: StoredAttempt


class AttemptStep(msgspec.Struct, frozen=True):
    """A node accepted an attempt, or runs it."""

    attempt_id: AttemptId
    sender_node: NodeId
    epoch: int
    to: AttemptState
    number: int
    """Which of the node's words this is."""


class StoredAttempt(msgspec.Struct, frozen=True):
    """An attempt as its cell keeps it."""

    attempt_id: AttemptId
    job_id: JobId
    cell: int
    node_id: NodeId
    owner: Owner
    job_class: JobClass
    state: AttemptState
    instance_id: InstanceId
    due_at_ms: int
    run_until_ms: int = 0
    asked: bool = False
    times: Times = Times()
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    preemptions: int = 0


class CellChanges(msgspec.Struct, frozen=True):
    """What others must know of a cell that they have seen before."""

    cell: int
    version: int
    seats: tuple[SeatRecord, ...] = ()
    free: tuple[int, ...] = ()
    """Indexes of seats that no node has any more."""
    whole: bool = False
    """These are all seats: the cell was made anew since, or its version was never this."""


class Tombstone(msgspec.Struct, frozen=True):
    """No slot is held for the attempt, and none will be."""
