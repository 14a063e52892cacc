"""Several instances that work as one: presence, notes to each other, news, shared limits.

`Cluster` is the interface; `RedisPeers` is an instance's place in a cluster on a Redis server or
Redis Cluster (it needs the extra `cluster`, and is loaded when it is first asked for).
`MemoryHub` is a cluster within one process, for the virtual clock. `Membership` keeps an instance
present, `InboxReader` reads its inbox, and `Pulse` tells it that it stood still.
"""

from typing import TYPE_CHECKING, Any

from dragoman.extras import require_extra
from dragoman.live.cluster.answers import (
    Block,
    Burial,
    Card,
    CleanUp,
    ClusterTerms,
    Counted,
    DeadLetter,
    Drained,
    Fenced,
    Handed,
    InboxFull,
    InstanceGone,
    InstanceStanding,
    InstanceView,
    Joined,
    Limited,
    NoSuchLetter,
    NoteDelivery,
    Posted,
    Received,
    Renewed,
    Superseded,
    TakenDown,
)
from dragoman.live.cluster.changes import (
    AttemptProgress,
    CatalogStale,
    Change,
    InstanceStats,
    Marked,
    NodeChanged,
    SlotFreed,
)
from dragoman.live.cluster.interface import (
    Cluster,
    DeadLetters,
    Feed,
    Inbox,
    Limits,
    Presence,
)
from dragoman.live.cluster.membership import Fence, Membership, SocketHolder
from dragoman.live.cluster.memory import Faults, MemoryHub, MemoryPeers
from dragoman.live.cluster.notes import (
    AskReportNote,
    AssignNote,
    CancelNote,
    ControlNote,
    EndedNote,
    InheritedNote,
    Note,
    ResultNote,
    SessionTakenNote,
    SupersededNote,
    TryAgainNote,
    WatchNote,
    decode_note,
)
from dragoman.live.cluster.pulse import Pulse
from dragoman.live.cluster.reader import InboxReader

if TYPE_CHECKING:
    from dragoman.live.cluster.redis import KEY_FAMILIES, RedisPeers

__all__ = [
    "KEY_FAMILIES",
    "AskReportNote",
    "AssignNote",
    "AttemptProgress",
    "Block",
    "Burial",
    "CancelNote",
    "Card",
    "CatalogStale",
    "Change",
    "CleanUp",
    "Cluster",
    "ClusterTerms",
    "ControlNote",
    "Counted",
    "DeadLetter",
    "DeadLetters",
    "Drained",
    "EndedNote",
    "Faults",
    "Feed",
    "Fence",
    "Fenced",
    "Handed",
    "Inbox",
    "InboxFull",
    "InboxReader",
    "InheritedNote",
    "InstanceGone",
    "InstanceStanding",
    "InstanceStats",
    "InstanceView",
    "Joined",
    "Limited",
    "Limits",
    "Marked",
    "Membership",
    "MemoryHub",
    "MemoryPeers",
    "NoSuchLetter",
    "NodeChanged",
    "Note",
    "NoteDelivery",
    "Posted",
    "Presence",
    "Pulse",
    "Received",
    "RedisPeers",
    "Renewed",
    "ResultNote",
    "SessionTakenNote",
    "SlotFreed",
    "SocketHolder",
    "Superseded",
    "SupersededNote",
    "TakenDown",
    "TryAgainNote",
    "WatchNote",
    "decode_note",
]


def __getattr__(name: str) -> Any:
    if name in {"KEY_FAMILIES", "RedisPeers"}:
        require_extra("cluster", "A cluster on Redis")
        from dragoman.live.cluster import redis

        return getattr(redis, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
