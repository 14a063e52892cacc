"""What the ledger answers. Every answer is a type of its own, so callers never guess."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.ledger.records import JobInput, JobRecord, Owner
from dragoman.live.protocol import ErrorInfo, Outcome, RunningJob


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


class Registered(msgspec.Struct, frozen=True):
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


class Granted(msgspec.Struct, frozen=True):
    """A slot is held for the attempt."""

    cell: int
    index: int
    node_id: NodeId
    owner: Owner
    at_ms: int


class Full(msgspec.Struct, frozen=True):
    """At the moment each cell was asked, no candidate had a slot for this class."""

    cold: tuple[int, ...] = ()
    headroom: bool = False
    """Slots were free, but kept back for live work."""


class Gone(msgspec.Struct, frozen=True):
    """The attempt was held once and is over."""


class Preempting(msgspec.Struct, frozen=True):
    """A batch attempt is being cancelled; its slot will pass to the asker."""

    cell: int
    victim: RunningJob
    node_id: NodeId
    owner: Owner
    at_ms: int


class NoVictim(msgspec.Struct, frozen=True):
    """No batch attempt may be cancelled on the candidates."""


# --- attempts -----------------------------------------------------------------------------------


class Moved(msgspec.Struct, frozen=True):
    """The attempt took the step."""

    job_id: JobId
    at_ms: int


class Repeat(msgspec.Struct, frozen=True):
    """The step was made before; nothing changed."""

    job_id: JobId
    at_ms: int


class Finished(msgspec.Struct, frozen=True):
    """The attempt ended and gave its slot back; its job may take the outcome."""

    job_id: JobId
    freed: Freed
    at_ms: int


class LateFinish(msgspec.Struct, frozen=True):
    """A cancelled attempt ended at last: the slot is free, what it brought is dropped."""

    job_id: JobId
    freed: Freed


class CancelWon(msgspec.Struct, frozen=True):
    """The attempt is cancelling: whatever it answers now does not count."""

    job_id: JobId
    node_id: NodeId
    owner: Owner


class AlreadyEnded(msgspec.Struct, frozen=True):
    """The attempt had ended before the cancel came."""

    job_id: JobId
    outcome: Outcome
    error: ErrorInfo | None


class Dropped(msgspec.Struct, frozen=True):
    """An attempt its node never heard of is gone, and its slot is free."""

    freed: Freed


class Adopted(msgspec.Struct, frozen=True):
    """An attempt the cell did not know holds a slot now."""


# --- jobs ---------------------------------------------------------------------------------------


class Claimed(msgspec.Struct, frozen=True):
    """A new job was made."""

    job_id: JobId
    at_ms: int


class Existing(msgspec.Struct, frozen=True):
    """The request was made before; this is its job."""

    job: JobRecord


class BodyConflict(msgspec.Struct, frozen=True):
    """The request_id is bound to a job with another body."""

    job_id: JobId


class Bound(msgspec.Struct, frozen=True):
    """The attempt is the job's current one."""

    attempt_no: int
    """1 for the first attempt that counts."""


class NotBound(msgspec.Struct, frozen=True):
    """Another attempt is current, the job has ended, or this attempt was shut out."""

    ended: bool


class Retrying(msgspec.Struct, frozen=True):
    """The attempt is over and the job is CREATED again."""

    job: JobRecord


class Ended(msgspec.Struct, frozen=True):
    """The job has its one end."""

    job: JobRecord


class NotCurrent(msgspec.Struct, frozen=True):
    """The attempt is not the job's current one; it is remembered as over."""

    job: JobRecord


class JobGone(msgspec.Struct, frozen=True):
    """The ledger has no such job."""


class Taken(msgspec.Struct, frozen=True):
    """A job whose instance fell silent is driven by the asker now."""

    job: JobRecord
    input: JobInput


class OpenWork(msgspec.Struct, frozen=True):
    """A job that has not ended, and what a node works on."""

    job: JobRecord
    input: JobInput
    at_ms: int
    """The time where the job is kept: the one its own times can be compared with."""


class StillHeld(msgspec.Struct, frozen=True):
    """An instance drives the job, or it has ended."""

    by: InstanceId | None = None


class Outlook(msgspec.Struct, frozen=True):
    """When a slot of some candidates can be expected, from what they did lately."""

    slots: int
    held: int
    first_free_ms: int | None
    """None while nothing is known about their service times."""
