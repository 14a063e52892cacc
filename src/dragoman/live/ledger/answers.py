"""What the ledger answers. Every answer is a type of its own, so callers never guess."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.ledger.records import Owner
from dragoman.live.protocol import RunningJob


class StaleReason(StrEnum):
    """Why a message about an attempt changed nothing."""

    UNKNOWN = "unknown_job"
    WRONG_NODE = "wrong_node"
    OLD_ATTEMPT = "old_attempt"
    """It came over an older connection than the one that holds the attempt."""
    LATE = "late"
    """The attempt was cancelled or given up before the answer came."""
    DUPLICATE = "duplicate"


class Stale(msgspec.Struct, frozen=True):
    """Nothing changed: the message is about something that is over or not the sender's."""

    reason: StaleReason


class Cold(msgspec.Struct, frozen=True):
    """The cell lost its memory or never had any: its nodes must be placed again."""

    cell: int


class NotSeated(msgspec.Struct, frozen=True):
    """The cell does not know the node under this connection."""

    node_id: NodeId


class Done(msgspec.Struct, frozen=True):
    """It is so now, or it was so already."""

    wake: tuple[InstanceId, ...] = ()
    """Of the shared ledger: instances that wait for slots that may be granted from now on."""


class Inherited(msgspec.Struct, frozen=True):
    """A slot that came free passed to the live attempt that was waiting for it."""

    job_id: JobId
    attempt_id: AttemptId


class Freed(msgspec.Struct, frozen=True):
    """What became of the slots an operation gave back."""

    slots: int = 0
    """Slots that any job may take now."""
    inherited: tuple[Inherited, ...] = ()
    wake: tuple[InstanceId, ...] = ()
    """Of the shared ledger: instances that wait for such slots, one a slot."""


NOTHING_FREED = Freed()


# --- the directory ------------------------------------------------------------------------------


class NodeRegistered(msgspec.Struct, frozen=True):
    """The node has a cell, and this connection owns it from now on."""

    cell: int
    owner: Owner
    previous: Owner | None
    """The connection that was superseded, if there was one."""


class HolderConflict(msgspec.Struct, frozen=True):
    """The node_id belongs to another key or token."""


class DirectoryFull(msgspec.Struct, frozen=True):
    """Every cell is full."""


# --- cells --------------------------------------------------------------------------------------


class Placed(msgspec.Struct, frozen=True):
    """The node has a seat, and the attempts of its older connections are settled."""

    index: int
    version: int
    drained: bool
    passed: tuple[RunningJob, ...] = ()
    """Attempts that go on under the new connection."""
    lost: tuple[RunningJob, ...] = ()
    """Attempts of older connections that the node no longer runs: ended, slot free."""
    cancelling: tuple[RunningJob, ...] = ()
    """Attempts it still runs that no job wants: to be told to cancel."""
    unknown: tuple[RunningJob, ...] = ()
    """Attempts it runs that the cell does not know: to be adopted or cancelled."""
    freed: Freed = NOTHING_FREED


class CellFull(msgspec.Struct, frozen=True):
    """The cell has no seat left."""


class Beat(msgspec.Struct, frozen=True):
    """A heartbeat was taken: leases are renewed, and the two lists are compared."""

    lost: tuple[RunningJob, ...] = ()
    unknown: tuple[RunningJob, ...] = ()
    cancelling: tuple[RunningJob, ...] = ()
    freed: Freed = NOTHING_FREED


class NodeLost(msgspec.Struct, frozen=True):
    """The node is gone past its grace; what it held is ended."""

    lost: tuple[RunningJob, ...] = ()
    freed: Freed = NOTHING_FREED


# --- reserving ----------------------------------------------------------------------------------


# --- attempts -----------------------------------------------------------------------------------


# --- jobs ---------------------------------------------------------------------------------------


class Outlook(msgspec.Struct, frozen=True):
    """When a slot of some candidates can be expected, from what they did lately."""

    slots: int
    held: int
    first_free_ms: int | None
    """None while nothing is known about their service times."""
