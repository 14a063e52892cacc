"""Session records in one process's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from dragoman.ids import ConnectionId, InstanceId, SessionId
from dragoman.live.sessions.record import (
    MOST_TARGETS_ENDED,
    Delivered,
    OpenJob,
    SessionOwner,
    SessionRecord,
)


class _Kept:
    """A record as it is written to: what changes often is not copied for it."""

    def __init__(self, record: SessionRecord, keep_delivered: int) -> None:
        self._start = record
        self._keep_delivered = keep_delivered
        self.owner = record.owner
        self.next_chunk_seq = record.next_chunk_seq
        self.next_utterance_index = record.next_utterance_index
        self.next_delivery_seq = record.next_delivery_seq
        self.ended = dict(record.ended)
        self.open_jobs: dict[tuple[int, str], OpenJob] = {}
        for job in record.open_jobs:
            self.open(job)
        self.unacknowledged = deque(record.unacknowledged)
        """In the order of their numbers."""
        self.let_go(record.next_delivery_seq - 1 - keep_delivered)

    def record(self) -> SessionRecord:
        return msgspec.structs.replace(
            self._start,
            owner=self.owner,
            next_chunk_seq=self.next_chunk_seq,
            next_utterance_index=self.next_utterance_index,
            next_delivery_seq=self.next_delivery_seq,
            open_jobs=tuple(self.open_jobs[key] for key in sorted(self.open_jobs)),
            unacknowledged=tuple(self.unacknowledged),
            ended=dict(self.ended),
        )

    def open(self, job: OpenJob) -> None:
        if job.utterance_index > self.ended.get(job.target, -1):
            self.open_jobs[job.utterance_index, job.target] = job

    def deliver(self, entry: Delivered) -> None:
        index, target = entry.utterance_index, entry.target
        self.open_jobs.pop((index, target), None)
        self._end(index, target)
        if entry.delivery_seq < self.next_delivery_seq:
            return
        self.next_delivery_seq = entry.delivery_seq + 1
        self.unacknowledged.append(entry)
        self.let_go(entry.delivery_seq - self._keep_delivered)

    def let_go(self, upto: int) -> None:
        while self.unacknowledged and self.unacknowledged[0].delivery_seq <= upto:
            self.unacknowledged.popleft()

    def _end(self, index: int, target: str) -> None:
        self.ended[target] = max(index, self.ended.get(target, -1))
        if len(self.ended) > MOST_TARGETS_ENDED:
            del self.ended[min(self.ended, key=lambda name: (self.ended[name], name))]


class MemoryRecords:
    """Session records in one process's memory; nobody else can own them, so they never lapse."""

    def __init__(self, keep_delivered: int) -> None:
        """keep_delivered is how far back unacknowledged deliveries are kept."""
        self._keep_delivered = keep_delivered
        self._kept: dict[SessionId, _Kept] = {}

    async def create(self, record: SessionRecord) -> None:
        await self.restore(record)

    async def restore(self, record: SessionRecord) -> bool:
        kept = self._kept.get(record.session_id)
        if kept is not None and kept.owner.epoch >= record.owner.epoch:
            return kept.owner == record.owner
        self._kept[record.session_id] = _Kept(record, self._keep_delivered)
        return True

    async def read(self, session_id: SessionId) -> SessionRecord | None:
        kept = self._kept.get(session_id)
        return kept.record() if kept is not None else None

    async def take(
        self, session_id: SessionId, instance_id: InstanceId, connection_id: ConnectionId
    ) -> SessionRecord | None:
        kept = self._kept.get(session_id)
        if kept is None:
            return None
        owner = kept.owner
        if (owner.instance_id, owner.connection_id) != (instance_id, connection_id):
            kept.owner = SessionOwner(instance_id, connection_id, owner.epoch + 1)
        return kept.record()

    async def renew(self, owned: Sequence[tuple[SessionId, int]]) -> tuple[SessionId, ...]:
        return tuple(
            session_id for session_id, epoch in owned if self._owned(session_id, epoch) is None
        )

    async def opened(
        self,
        session_id: SessionId,
        epoch: int,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
    ) -> bool:
        kept = self._owned(session_id, epoch)
        if kept is None:
            return False
        for job in jobs:
            kept.open(job)
        kept.next_chunk_seq = max(kept.next_chunk_seq, next_chunk_seq)
        kept.next_utterance_index = max(kept.next_utterance_index, next_utterance_index)
        return True

    async def delivered(
        self, session_id: SessionId, epoch: int, entries: Sequence[Delivered]
    ) -> bool:
        kept = self._owned(session_id, epoch)
        if kept is None:
            return False
        for entry in entries:
            kept.deliver(entry)
        return True

    async def acknowledged(self, session_id: SessionId, epoch: int, upto: int) -> bool:
        kept = self._owned(session_id, epoch)
        if kept is None:
            return False
        kept.let_go(upto)
        return True

    async def forget(self, session_id: SessionId, epoch: int) -> bool:
        if self._owned(session_id, epoch) is None:
            return False
        del self._kept[session_id]
        return True

    async def count(self) -> int:
        return len(self._kept)

    def _owned(self, session_id: SessionId, epoch: int) -> _Kept | None:
        kept = self._kept.get(session_id)
        return kept if kept is not None and kept.owner.epoch == epoch else None
