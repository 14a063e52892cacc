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
    unacknowledged: tuple[Delivered, ...] = ()


class SessionRecords(Protocol):
    """Keeps session records. Writes answer False when the writer is no longer the owner."""

    async def create(self, record: SessionRecord) -> None: ...

    async def read(self, session_id: SessionId) -> SessionRecord | None: ...

    async def take(
        self, session_id: SessionId, instance_id: InstanceId, connection_id: ConnectionId
    ) -> SessionRecord | None:
        """Become the owner: the epoch rises, and the record as it is now comes back."""
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
        """An utterance has its jobs: its chunks need not be sent again."""
        ...

    async def delivered(
        self, session_id: SessionId, epoch: int, entries: Sequence[Delivered]
    ) -> bool:
        """These have their delivery numbers now, and are no longer open; told twice, it is once."""
        ...

    async def acknowledged(self, session_id: SessionId, epoch: int, upto: int) -> bool:
        """Everything up to this delivery number has arrived."""
        ...

    async def forget(self, session_id: SessionId, epoch: int) -> bool:
        """The session is over."""
        ...

    async def count(self) -> int: ...


class MemoryRecords:
    """Session records in one process's memory."""

    def __init__(self, keep_delivered: int) -> None:
        self._keep_delivered = keep_delivered
        self._records: dict[SessionId, SessionRecord] = {}

    async def create(self, record: SessionRecord) -> None:
        self._records[record.session_id] = record

    async def read(self, session_id: SessionId) -> SessionRecord | None:
        return self._records.get(session_id)

    async def take(
        self, session_id: SessionId, instance_id: InstanceId, connection_id: ConnectionId
    ) -> SessionRecord | None:
        record = self._records.get(session_id)
        if record is None:
            return None
        owner = SessionOwner(instance_id, connection_id, record.owner.epoch + 1)
        self._records[session_id] = taken = msgspec.structs.replace(record, owner=owner)
        return taken

    async def opened(
        self,
        session_id: SessionId,
        epoch: int,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
    ) -> bool:
        record = self._owned(session_id, epoch)
        if record is None:
            return False
        known = {(job.utterance_index, job.target): job for job in record.open_jobs}
        known.update({(job.utterance_index, job.target): job for job in jobs})
        self._records[session_id] = msgspec.structs.replace(
            record,
            open_jobs=tuple(known.values()),
            next_chunk_seq=next_chunk_seq,
            next_utterance_index=next_utterance_index,
        )
        return True

    async def delivered(
        self, session_id: SessionId, epoch: int, entries: Sequence[Delivered]
    ) -> bool:
        record = self._owned(session_id, epoch)
        if record is None:
            return False
        done = {(entry.utterance_index, entry.target) for entry in entries}
        new = [entry for entry in entries if entry.delivery_seq >= record.next_delivery_seq]
        kept = (*record.unacknowledged, *new)[-self._keep_delivered :]
        last = max((entry.delivery_seq for entry in entries), default=0)
        self._records[session_id] = msgspec.structs.replace(
            record,
            open_jobs=tuple(
                job for job in record.open_jobs if (job.utterance_index, job.target) not in done
            ),
            unacknowledged=kept,
            next_delivery_seq=max(record.next_delivery_seq, last + 1),
        )
        return True

    async def acknowledged(self, session_id: SessionId, epoch: int, upto: int) -> bool:
        record = self._owned(session_id, epoch)
        if record is None:
            return False
        self._records[session_id] = msgspec.structs.replace(
            record,
            unacknowledged=tuple(
                entry for entry in record.unacknowledged if entry.delivery_seq > upto
            ),
        )
        return True

    async def forget(self, session_id: SessionId, epoch: int) -> bool:
        if self._owned(session_id, epoch) is None:
            return False
        del self._records[session_id]
        return True

    async def count(self) -> int:
        return len(self._records)

    def _owned(self, session_id: SessionId, epoch: int) -> SessionRecord | None:
        record = self._records.get(session_id)
        return record if record is not None and record.owner.epoch == epoch else None
