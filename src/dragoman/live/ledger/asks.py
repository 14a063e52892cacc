"""What is asked of the ledger, where it takes more than a few words to say."""

from __future__ import annotations

import msgspec

from dragoman.ids import ConnectionId, InstanceId, NodeId
from dragoman.live.ledger.records import Owner
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


class Sender(msgspec.Struct, frozen=True):
    """Who says something about an attempt."""

    node_id: NodeId
    epoch: int


class Ending(msgspec.Struct, frozen=True, gc=False):
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


class Keep(msgspec.Struct, frozen=True):
    """How long an ended job is remembered."""

    lease_ms: int
    """A successful one answers its request_id again for this long."""
    retention_ms: int
