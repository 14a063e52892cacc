"""The facts the ledger keeps: seats of nodes, attempts, jobs."""

from __future__ import annotations

import msgspec

from dragoman.ids import (
    AttemptId,
    ConnectionId,
    InstanceId,
    JobId,
    NodeId,
    RequestId,
    SessionId,
    TenantId,
)
from dragoman.live.protocol import (
    AttemptState,
    AudioFormat,
    Cut,
    ErrorInfo,
    JobClass,
    JobResult,
    JobState,
    Mode,
    NamedServices,
    Outcome,
    Pipeline,
    normal_language,
)


class Owner(msgspec.Struct, frozen=True):
    """The connection a node is reached through; a newer one has a higher epoch."""

    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int


class DirectoryEntry(msgspec.Struct, frozen=True):
    """Where a node lives and whom its name belongs to."""

    node_id: NodeId
    cell: int
    holder: str
    """The key or registration token that first used the node_id; empty when unclaimed."""
    owner: Owner


class SeatRecord(msgspec.Struct, frozen=True):
    """A node's place in its cell, and how many of its slots are held."""

    node_id: NodeId
    index: int
    slots: int
    held: int
    owner: Owner
    online: bool
    drained: bool
    """An operator's drain; it outlives a reconnect."""
    alive_until_ms: int
    mean_ms: float
    """Mean service time of what the node did lately; 0 while unknown."""
    facts: bytes = b""
    """What other instances need to know of the node; opaque to the ledger."""


class CellRecord(msgspec.Struct, frozen=True):
    """A cell as it is now. The version moves when a seat's facts do, not with its slots."""

    cell: int
    version: int
    seats: tuple[SeatRecord, ...]


class Times(msgspec.Struct, frozen=True, omit_defaults=True):
    """When an attempt took its steps, in milliseconds since 1970; 0 for a step not taken."""

    dispatched_ms: int = 0
    accepted_ms: int = 0
    running_ms: int = 0
    finished_ms: int = 0


class AttemptRecord(msgspec.Struct, frozen=True):
    """One try at a job on one node. While it is not FINISHED it holds one slot."""

    attempt_id: AttemptId
    job_id: JobId
    cell: int
    node_id: NodeId
    owner: Owner
    job_class: JobClass
    state: AttemptState
    acked: bool
    """The current connection of the node has acknowledged or listed it."""
    due_at_ms: int
    """When the sweep must look at it: lease, run time, cancel grace or an end not yet taken."""
    run_until_ms: int = 0
    """When its run time is up; 0 before it is acknowledged."""
    asked: bool = False
    """Its node was asked to report after the cancel grace passed."""
    times: Times = Times()
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    preemptions: int = 0


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was asked for. It does not change while the job lives."""

    tenant: TenantId
    request_id: RequestId
    src_lang: str
    tgt_lang: str
    pipeline: Pipeline
    job_class: JobClass = JobClass.LIVE
    features: tuple[str, ...] = ()
    mode: Mode = Mode.ONE_WAY
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: tuple[str, ...] = ()
    audio_format: AudioFormat | None = None
    sample_rate: int | None = None
    cut: Cut = Cut.NONE
    padding_ms: int = 0
    session_id: SessionId | None = None
    utterance_index: int | None = None
    preferred_node_id: NodeId | None = None
    exclude_node_id: NodeId | None = None
    trace_id: str = ""
    services: NamedServices = ()
    """The services that it asks for; only of stages that it goes through."""

    @property
    def target_key(self) -> str:
        """The target as requests are bound by it: ``EN`` and ``en`` are one language."""
        return normal_language(self.tgt_lang)


class JobInput(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the node works on; dropped as soon as the job has ended."""

    audio: bytes | None = None
    text: str | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.audio or b"") + len(self.text or "")


class PastAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt as its job remembers it."""

    attempt_id: AttemptId
    cell: int
    node_id: NodeId
    bound: bool = True
    """False for one that was shut out before it was bound."""
    counts: bool = True
    """False for a preempted one: it is not an attempt against the job's limit."""
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    times: Times = Times()


class JobRecord(msgspec.Struct, frozen=True):
    """A job: what was asked, the attempts made, and how it ended.

    While an attempt is current, the job's state is that attempt's, which lives in its cell; the
    state here is then DISPATCHED.
    """

    job_id: JobId
    spec: JobSpec
    state: JobState
    claimed_by: InstanceId
    created_at_ms: int
    claim_until_ms: int
    """Until when the instance that drives the job has promised to; renewed while it waits."""
    total_until_ms: int | None
    """When the job's time is up; None for batch work that waits."""
    attempts: tuple[PastAttempt, ...] = ()
    current: AttemptId | None = None
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    finished_at_ms: int = 0
    preemptions: int = 0

    @property
    def attempts_used(self) -> int:
        """Attempts that count against failover_max_attempts."""
        return sum(1 for attempt in self.attempts if attempt.bound and attempt.counts)

    @property
    def current_attempt(self) -> PastAttempt | None:
        for attempt in reversed(self.attempts):
            if attempt.attempt_id == self.current:
                return attempt
        return None

    @property
    def ended(self) -> bool:
        return self.state in (JobState.FINISHED, JobState.RELEASED)
