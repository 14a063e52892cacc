"""The words of the ledger: what is asked of it, what it answers, and what it keeps.

`Seats` is the part that every room may use. What places jobs is in `dragoman.live.dispatch`, what
instances share in `dragoman.live.shared`.
"""

from dragoman.live.ledger.answers import (
    NOTHING_FREED,
    Beat,
    CellFull,
    Cold,
    DirectoryFull,
    Done,
    Freed,
    HolderConflict,
    Inherited,
    NodeLost,
    NodeRegistered,
    NotSeated,
    Outlook,
    Placed,
    Stale,
    StaleReason,
)
from dragoman.live.ledger.asks import (
    Adoption,
    Ending,
    Heartbeat,
    Keep,
    Placement,
    Registration,
    Sender,
)
from dragoman.live.ledger.interface import Seats
from dragoman.live.ledger.memory.choice import CHOICES, draw, indexes
from dragoman.live.ledger.memory.directory import Directory
from dragoman.live.ledger.memory.due import DueQueue
from dragoman.live.ledger.memory.recent import RecentJobs
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
from dragoman.live.ledger.states import ORDER, Strategy

__all__ = [
    "CHOICES",
    "NOTHING_FREED",
    "ORDER",
    "Adoption",
    "AttemptRecord",
    "Beat",
    "CellFull",
    "CellRecord",
    "Cold",
    "Directory",
    "DirectoryEntry",
    "DirectoryFull",
    "Done",
    "DueQueue",
    "Ending",
    "Freed",
    "Heartbeat",
    "HolderConflict",
    "Inherited",
    "JobInput",
    "JobRecord",
    "JobSpec",
    "Keep",
    "NodeLost",
    "NodeRegistered",
    "NotSeated",
    "Outlook",
    "Owner",
    "PastAttempt",
    "Placed",
    "Placement",
    "RecentJobs",
    "Registration",
    "SeatRecord",
    "Seats",
    "Sender",
    "Stale",
    "StaleReason",
    "Strategy",
    "Times",
    "draw",
    "indexes",
]
