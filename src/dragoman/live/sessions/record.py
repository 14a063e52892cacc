"""What must outlive a session's connection, so that a dropped client can go on where it was.

Only the session's owner writes it. Every write carries the owner's epoch, and a write of an
older owner changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from dragoman.ids import ConnectionId, InstanceId, JobId, SessionId, TenantId
from dragoman.live.protocol import SessionInit

MOST_TARGETS_ENDED = 32
"""How many targets' last ends are kept; utterances may name targets of their own without end."""


class SessionOwner(msgspec.Struct, frozen=True):
    """The connection that speaks for the session; a newer one has a higher epoch."""

    instance_id: InstanceId
    connection_id: ConnectionId
    epoch: int


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
    """Set when the utterance was announced missing."""


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as the next owner needs it."""

    session_id: SessionId
    tenant: TenantId
    secret_hash: str
    """Proves that a resume_token is this session's."""
    init: SessionInit
    owner: SessionOwner
    next_chunk_seq: int = 0
    """The first chunk that is in no stored job."""
    next_utterance_index: int = 0
    next_delivery_seq: int = 1
    open_jobs: tuple[OpenJob, ...] = ()
    """In the order of utterances, then of targets."""
    unacknowledged: tuple[Delivered, ...] = ()
    """In the order of their numbers."""
    ended: dict[str, int] = {}
    """The last utterance that was delivered for a target; it and those before never open again."""


class SessionRecords(Protocol):
    """Keeps session records. Writes answer False when the writer is no longer the owner.

    Every operation may be asked again when its answer was lost: the second time changes nothing.
    A keeper that cannot be reached raises DependencyDown.
    """

    async def create(self, record: SessionRecord) -> None:
        """A session was opened."""
        ...

    async def restore(self, record: SessionRecord) -> bool:
        """Write a record that is gone, or that an earlier owner left, again.

        What the same owner has already stored stays as it is. False when the session has a newer
        owner, or another one of the same epoch.
        """
        ...

    async def read(self, session_id: SessionId) -> SessionRecord | None: ...

    async def take(
        self, session_id: SessionId, instance_id: InstanceId, connection_id: ConnectionId
    ) -> SessionRecord | None:
        """Become the owner: the epoch rises, and the record as it is now comes back.

        A connection that is the owner stays it under the same epoch.
        """
        ...

    async def renew(self, owned: Sequence[tuple[SessionId, int]]) -> tuple[SessionId, ...]:
        """Go on owning sessions, each named with its epoch; those that are not the asker's.

        Records that nobody renews or writes are forgotten after a while.
        """
        ...

    async def opened(
        self,
        session_id: SessionId,
        epoch: int,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
    ) -> bool:
        """An utterance has its jobs: its chunks need not be sent again.

        A job of an utterance that was already delivered for its target stays closed, and neither
        number goes back.
        """
        ...

    async def delivered(
        self, session_id: SessionId, epoch: int, entries: Sequence[Delivered]
    ) -> bool:
        """These have their delivery numbers now, and are no longer open; told twice, it is once.

        Each target's utterances are told in their order.
        """
        ...

    async def acknowledged(self, session_id: SessionId, epoch: int, upto: int) -> bool:
        """Everything up to this delivery number has arrived."""
        ...

    async def forget(self, session_id: SessionId, epoch: int) -> bool:
        """The session is over."""
        ...

    async def count(self) -> int: ...
