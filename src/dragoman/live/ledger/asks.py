"""What is asked of the ledger, where it takes more than a few words to say."""

from __future__ import annotations

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId
from dragoman.live.ledger.records import JobInput, JobSpec, Owner
from dragoman.live.ledger.states import Strategy
from dragoman.live.protocol import ErrorInfo, JobClass, JobResult, Outcome, RunningJob


class Registration(msgspec.Struct, frozen=True):
    """A connection wants to speak for a node."""

    node_id: NodeId
    instance_id: InstanceId
    connection_id: ConnectionId
    holder: str = ""
    """Whom the node_id belongs to from now on."""
    exclusive: bool = False
    """A node_id that belongs to a holder passes to this one, or from `known_holder` only."""
    known_holder: str = ""
    """Whom it belonged to when the instance allowed this registration."""
    at_least_epoch: int = 0
    """The highest epoch the instance has seen for the node, so that a directory that lost its
    memory does not count backwards."""
    not_cells: tuple[int, ...] = ()
    """Cells that turned out to be full."""


class Placement(msgspec.Struct, frozen=True):
    """A node takes its seat, with what it says it is running right now."""

    node_id: NodeId
    owner: Owner
    slots: int
    lease_ms: int
    """How long the node counts as alive without a heartbeat."""
    running: tuple[RunningJob, ...] = ()
    facts: bytes = b""


class Heartbeat(msgspec.Struct, frozen=True):
    """A node is alive and says what it runs."""

    node_id: NodeId
    epoch: int
    lease_ms: int
    running: tuple[RunningJob, ...] = ()
    number: int = 0
    """Among what the node said over this connection. The ledger may carry a heartbeat out late,
    when its asker has long given up on it: what was acknowledged after it, it cannot list."""


class SlotAsk(msgspec.Struct, frozen=True):
    """One slot for one attempt, on any candidate of the cells, tried in the order given."""

    job_id: JobId
    attempt_id: AttemptId
    cells: tuple[tuple[int, int], ...]
    """(cell, candidates): bit i of the candidates is the seat with index i."""
    job_class: JobClass
    ack_ms: int
    """How long the node has to acknowledge."""
    lease_ms: int
    """How long an acknowledged attempt is held without a heartbeat."""
    run_ms: int
    """How long it may run, from its acknowledgement."""
    strategy: Strategy = Strategy.RANDOM
    headroom: float = 0.0
    """For batch: the share of the candidates' slots that must stay free."""
    preemptions: int = 0
    """For batch: how often the job gave way already."""
    max_preemptions: int = 0
    """For live: leave batch attempts alone that gave way this often."""
    grace_ms: int = 0
    """For live: how long a preempted attempt has to answer."""


class Sender(msgspec.Struct, frozen=True):
    """Who says something about an attempt."""

    node_id: NodeId
    epoch: int


class Ending(msgspec.Struct, frozen=True):
    """How an attempt ended."""

    outcome: Outcome
    output: JobResult | None = None
    error: ErrorInfo | None = None


class Adoption(msgspec.Struct, frozen=True):
    """An attempt a node runs that its cell does not know."""

    running: RunningJob
    sender: Sender
    job_class: JobClass
    wanted: bool
    """It is its job's current attempt: it goes on. Otherwise it is cancelled, and holds its
    slot until the node says it is gone."""
    lease_ms: int
    run_ms: int
    number: int = 0
    """Of the heartbeat that listed it."""
    instance_id: InstanceId = InstanceId("")
    """Who drives its job, for the shared ledger; empty: the instance that its node is reached
    through."""


class Claim(msgspec.Struct, frozen=True):
    """A request wants its job."""

    spec: JobSpec
    input: JobInput
    body_hash: bytes
    instance_id: InstanceId
    claim_ms: int
    total_ms: int | None
    """None: the job waits until it is cancelled, and its time runs from each dispatch."""


class Keep(msgspec.Struct, frozen=True):
    """How long an ended job is remembered."""

    lease_ms: int
    """A successful one answers its request_id again for this long."""
    retention_ms: int
