"""What a cluster answers: facts about instances, notes handed over, limits counted."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dragoman.ids import InstanceId
from dragoman.live.cluster.notes import Note


class ClusterTerms(msgspec.Struct, frozen=True):
    """The times and bounds that all instances of a cluster go by."""

    presence_ttl_ms: int = 30_000
    """Silence after which no instance writes to an instance any more."""
    owner_ttl_ms: int = 45_000
    """Silence after which others may clean up after it."""
    inbox_max: int = 10_000
    reclaim_idle_ms: int = 5_000
    """How long a note may be in work, unheard of, before it is handed out again."""
    max_deliveries: int = 10
    dead_letters_max: int = 10_000

    @property
    def suspicion_ms(self) -> int:
        """How long an instance is suspected before it is taken down.

        It runs from when an instance saw the lapse, not from the lapse: after an outage of Redis
        every instance has lapsed, and each gets this long to say that it is still there.
        """
        return self.owner_ttl_ms - self.presence_ttl_ms


# --- presence ------------------------------------------------------------------------------------


class InstanceStanding(StrEnum):
    """Where an instance stands; UP with its time run out is called lapsed."""

    UP = "up"
    LEFT = "left"
    """It said goodbye, but its inbox is not empty."""
    DOWN = "down"
    """A peer took it down; it must join anew before it does anything."""


class Card(msgspec.Struct, frozen=True):
    """What an instance tells about itself each time it renews its presence."""

    url: str
    started_at_ms: int
    draining: bool = False
    nodes: int = 0
    sessions: int = 0
    common: dict[str, str] = {}
    """By name, the settings that all instances of a cluster must have alike."""


class Joined(msgspec.Struct, frozen=True):
    """The instance is present."""

    took_over: bool = False
    """Another process of the same name was still present; it will be told at its next renewal."""


class Renewed(msgspec.Struct, frozen=True):
    """The instance is still present."""

    revived: bool = False
    """It had lapsed, or Redis had forgotten it, and no instance had cleaned up after it."""


class Superseded(msgspec.Struct, frozen=True):
    """Another process has joined under the same name: this one must stop."""


class TakenDown(msgspec.Struct, frozen=True):
    """A peer cleaned up after this instance: it must drop its sockets and join anew."""


class InstanceView(msgspec.Struct, frozen=True):
    """An instance as others see it."""

    instance_id: InstanceId
    card: Card
    alive: bool
    inbox_length: int
    pending: int
    """Notes handed out and not yet done."""
    dead_letters: int


class CleanUp(msgspec.Struct, frozen=True):
    """The right to clean up after a lapsed instance; it lapses too, when nothing is drained."""

    instance_id: InstanceId
    incarnation: str
    """Which life of the instance has ended; the next one is none of the cleaner's business."""
    token: str


class Drained(msgspec.Struct, frozen=True):
    """Notes taken from a lapsed instance's inbox, for good."""

    notes: tuple[Note, ...]
    more: bool


class Fenced(msgspec.Struct, frozen=True):
    """Nothing was taken: the instance is back, or another one cleans up after it."""


# --- inbox ---------------------------------------------------------------------------------------


class Posted(msgspec.Struct, frozen=True):
    """The note is in the inbox."""


class InboxFull(msgspec.Struct, frozen=True):
    """The inbox has no room; nothing was thrown out to make some."""


class InstanceGone(msgspec.Struct, frozen=True):
    """No instance of that name is present."""


class NoteDelivery(msgspec.Struct, frozen=True):
    """A note handed out to its instance."""

    entry_id: str
    deliveries: int
    """How often it was handed out, this time included."""
    note: Note
    age_ms: int = 0
    """How long ago it was posted, by the time of where the inbox lies."""


class Handed(msgspec.Struct, frozen=True):
    """What the inbox had."""

    deliveries: tuple[NoteDelivery, ...] = ()
    length: int = 0
    """Notes in the inbox now, those just handed out included."""
    buried: int = 0
    """Notes that became dead letters on this occasion."""


class Received(msgspec.Struct, frozen=True):
    """New notes."""

    deliveries: tuple[NoteDelivery, ...] = ()
    is_all: bool = False
    """Whether every note that was posted before has been handed out."""


class Burial(StrEnum):
    """Why a note became a dead letter."""

    TOO_MANY_DELIVERIES = "too_many_deliveries"
    UNREADABLE = "unreadable"


class DeadLetter(msgspec.Struct, frozen=True):
    """A note that its instance could not handle."""

    letter_id: str
    instance_id: InstanceId
    reason: Burial
    deliveries: int
    buried_at_ms: int
    written: bytes
    """The note as it was posted; see `decode_note`."""


class NoSuchLetter(msgspec.Struct, frozen=True):
    """No dead letter has that id; it may have been replayed or dropped."""


# --- limits --------------------------------------------------------------------------------------


class Limited(StrEnum):
    """What is counted per tenant over all instances."""

    SESSIONS = "sessions"
    IN_FLIGHT = "in_flight"


class Counted(msgspec.Struct, frozen=True):
    """One more within a window of time."""

    allowed: bool
    count: int
    resets_in_ms: int


class Block(msgspec.Struct, frozen=True):
    """A part of a tenant's limit that one instance may use."""

    size: int
    held: int
    """By all instances together."""


def letter_id_of(instance_id: InstanceId, entry_id: str) -> str:
    """The id of the letter that an inbox entry becomes: always the same, in order of posting."""
    milliseconds, _, number = entry_id.partition("-")
    return f"{int(milliseconds):013d}-{int(number):06d}@{instance_id}"
