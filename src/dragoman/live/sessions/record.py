"""What must outlive a session's connection, so that a dropped client can go on where it was.

Only the session's owner writes it; any other write changes nothing. Every write raises
the record's revision and names the newest one that its writer has seen: a keeper that was taken
back to an earlier time, as Redis is by a failover, refuses it, and so the writer notices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit
from dragoman.live.sessions.unacknowledged import DROPPED

MOST_TARGETS_ENDED = 32
"""How many targets' last ends are kept; utterances may name targets of their own without end."""


class SessionOwner(msgspec.Struct, frozen=True):
    """The connection that speaks for the session; a newer one has a higher epoch."""

    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int


class Holding(msgspec.Struct, frozen=True):
    """A session in the hands of its owner: what is named with every write to its record."""

    session_id: SessionId
    owner: SessionOwner
    seen: int
    """The newest revision of the record that the owner knows to be stored."""


class OpenJob(msgspec.Struct, frozen=True):
    """A job of an utterance that has not been delivered for one of its targets."""

    utterance_index: int
    target: str
    job_id: JobId | None
    """None while no job could be made yet."""


class Delivered(msgspec.Struct, frozen=True):
    """What was sent under a delivery number and may have to be sent again."""

    delivery_seq: int
    utterance_index: int
    target: str
    job_id: JobId | None
    reason: str | None = None
    """Set when the utterance was announced missing, or what was sent is no longer kept."""


def mark_of(entry: Delivered) -> Delivered:
    """What is left of a delivery that was not acknowledged and cannot be kept."""
    return Delivered(
        entry.delivery_seq, entry.utterance_index, entry.target, None, entry.reason or DROPPED
    )


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as the next owner needs it."""

    session_id: SessionId
    tenant: TenantId
    secret_hash: str
    """Proves that a resume_token is this session's."""
    init: SessionInit
    owner: SessionOwner
    revision: int = 1
    """How often the record was written."""
    next_chunk_seq: int = 0
    """The first chunk that is in no stored job."""
    half_sample: bytes = b""
    """The part of a sample that the chunks before that one end with; it is in no job either."""
    next_utterance_index: int = 0
    next_delivery_seq: int = 1
    open_jobs: tuple[OpenJob, ...] = ()
    """In the order of utterances, then of targets."""
    unacknowledged: tuple[Delivered, ...] = ()
    """In the order of their numbers; of the oldest only that they were sent, and dropped."""
    ended: dict[str, int] = {}
    """The last utterance that was delivered for a target; it and those before never open again."""


class Taken(msgspec.Struct, frozen=True):
    """A session that has a new owner."""

    record: SessionRecord
    before: SessionOwner
    """Whom it was taken from; the owner itself, when it was the owner already."""


class ChangedHands(msgspec.Struct, frozen=True):
    """The owner is no longer the one that the session was to be taken from."""


class SessionRecords(Protocol):
    """Keeps session records.

    A write answers the record's new revision. It answers 0, and has changed nothing, when the
    writer is not the owner, or when the record is older than what the writer has seen of it.

    Every operation may be asked again when its answer was lost: the second time changes nothing
    but the revision. A keeper that cannot be reached raises DependencyDown.
    """

    async def create(self, record: SessionRecord) -> None:
        """A session was opened."""
        ...

    async def restore(self, record: SessionRecord) -> int:
        """Write a whole record: one that is gone, that an earlier owner left, or that is older.

        What its owner has stored under the same or a higher revision stays as it is.
        """
        ...

    async def read(self, session_id: SessionId) -> SessionRecord | None: ...

    async def take(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> Taken | ChangedHands | None:
        """Become the owner: the epoch rises, and the record as it is now comes back.

        A connection that is the owner stays it under the same epoch. With an epoch, only from the
        owner of that epoch: a take that is carried out late, when its asker has given up, must not
        take the session from a connection that came after it.
        """
        ...

    async def renew(self, held: Sequence[Holding]) -> tuple[SessionId, ...]:
        """Go on owning sessions; those that are not the asker's, or whose records are older.

        Records that are neither renewed nor written are forgotten after a while.
        """
        ...

    async def opened(
        self,
        held: Holding,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
        half_sample: bytes = b"",
    ) -> int:
        """An utterance has its jobs: its chunks need not be sent again.

        A job of an utterance that was already delivered for its target stays closed, and neither
        number goes back. The half sample goes with a next_chunk_seq that is higher than before.
        """
        ...

    async def delivered(self, held: Holding, entries: Sequence[Delivered]) -> int:
        """These have their delivery numbers now, and are no longer open; told twice, it is once.

        Each target's utterances are told in their order.
        """
        ...

    async def acknowledged(self, held: Holding, upto: int) -> int:
        """Everything up to this delivery number has arrived."""
        ...

    async def forget(self, session_id: SessionId, owner: SessionOwner) -> bool:
        """The session is over; False when another instance owns it."""
        ...

    async def count(self) -> int: ...
