"""Slots, leases, bindings and attempts: the one place that says who may work on what.

`Ledger` is the interface; `MemoryLedger` keeps it in one process, `RedisLedger` on a Redis server
or Cluster (it needs the extra `cluster`, and is loaded when it is first asked for).
"""

from typing import TYPE_CHECKING, Any

from dragoman.extras import require_extra
from dragoman.live.ledger.answers import (
    NOTHING_FREED,
    Adopted,
    AlreadyEnded,
    Beat,
    BodyConflict,
    Bound,
    CancelWon,
    CellFull,
    Claimed,
    Cold,
    DirectoryFull,
    Done,
    Dropped,
    Ended,
    Existing,
    Finished,
    Freed,
    Full,
    Gone,
    Granted,
    HolderConflict,
    Inherited,
    JobGone,
    LateFinish,
    Moved,
    NodeLost,
    NotBound,
    NotCurrent,
    NotSeated,
    NoVictim,
    OpenWork,
    Outlook,
    Placed,
    Preempting,
    Registered,
    Repeat,
    Retrying,
    Stale,
    StaleReason,
    StillHeld,
    Taken,
)
from dragoman.live.ledger.asks import (
    Adoption,
    Claim,
    Ending,
    Heartbeat,
    Keep,
    Placement,
    Registration,
    Sender,
    SlotAsk,
)
from dragoman.live.ledger.interface import Ledger, Seats
from dragoman.live.ledger.memory import MemoryLedger
from dragoman.live.ledger.records import (
    AttemptRecord,
    CellRecord,
    DirectoryEntry,
    JobInput,
    JobRecord,
    JobSpec,
    Owner,
    PastAttempt,
    SeatRecord,
    Times,
)
from dragoman.live.ledger.settlement import (
    NO_ACK,
    OUT_OF_TIME,
    RAN_TOO_LONG,
    JobDone,
    NothingToDo,
    Settlement,
    Step,
    Terms,
    TryAgain,
    final_error,
)
from dragoman.live.ledger.states import ORDER, TRANSITIONS, Strategy
from dragoman.live.ledger.sweep import Hands, Sweeper

if TYPE_CHECKING:
    from dragoman.live.ledger.redis import RedisLedger

from dragoman.live.ledger.memory.choice import CHOICES, draw, indexes
from dragoman.live.ledger.memory.directory import Directory
from dragoman.live.ledger.memory.due import DueQueue
from dragoman.live.ledger.memory.kept import KeptResults
from dragoman.live.ledger.memory.recent import RecentJobs

__all__ = [
    "CHOICES",
    "NOTHING_FREED",
    "NO_ACK",
    "ORDER",
    "OUT_OF_TIME",
    "RAN_TOO_LONG",
    "TRANSITIONS",
    "Adopted",
    "Adoption",
    "AlreadyEnded",
    "AttemptRecord",
    "Beat",
    "BodyConflict",
    "Bound",
    "CancelWon",
    "CellFull",
    "CellRecord",
    "Claim",
    "Claimed",
    "Cold",
    "Directory",
    "DirectoryEntry",
    "DirectoryFull",
    "Done",
    "Dropped",
    "DueQueue",
    "Ended",
    "Ending",
    "Existing",
    "Finished",
    "Freed",
    "Full",
    "Gone",
    "Granted",
    "Hands",
    "Heartbeat",
    "HolderConflict",
    "Inherited",
    "JobDone",
    "JobGone",
    "JobInput",
    "JobRecord",
    "JobSpec",
    "Keep",
    "KeptResults",
    "LateFinish",
    "Ledger",
    "MemoryLedger",
    "Moved",
    "NoVictim",
    "NodeLost",
    "NotBound",
    "NotCurrent",
    "NotSeated",
    "NothingToDo",
    "OpenWork",
    "Outlook",
    "Owner",
    "PastAttempt",
    "Placed",
    "Placement",
    "Preempting",
    "RecentJobs",
    "RedisLedger",
    "Registered",
    "Registration",
    "Repeat",
    "Retrying",
    "SeatRecord",
    "Seats",
    "Sender",
    "Settlement",
    "SlotAsk",
    "Stale",
    "StaleReason",
    "Step",
    "StillHeld",
    "Strategy",
    "Sweeper",
    "Taken",
    "Terms",
    "Times",
    "TryAgain",
    "draw",
    "final_error",
    "indexes",
]


def __getattr__(name: str) -> Any:
    if name == "RedisLedger":
        require_extra("cluster", "A ledger on Redis")
        from dragoman.live.ledger.redis import RedisLedger

        return RedisLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
