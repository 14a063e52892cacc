"""Session records in one process's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from dragoman.ids import ConnectionId, InstanceId, SessionId
from dragoman.live.sessions.record import (
    MOST_TARGETS_ENDED,
    ChangedHands,
    Delivered,
    Holding,
    OpenJob,
    SessionOwner,
    SessionRecord,
    Taken,
    mark_of,
)
from dragoman.live.sessions.unacknowledged import MARKS_PER_MESSAGE


class _Kept:
    """A record as it is written to: what changes often is not copied for it."""

    def __init__(self, record: SessionRecord, keep_delivered: int) -> None:
        self._start = record
        self._keep_delivered = keep_delivered
        self.owner = record.owner
        self.revision = record.revision
        self.next_chunk_seq = record.next_chunk_seq
        self.half_sample = record.half_sample
        self.next_utterance_index = record.next_utterance_index
        self.next_delivery_seq = record.next_delivery_seq
        self.ended = dict(record.ended)
        self.open_jobs: dict[tuple[int, str], OpenJob] = {}
        for job in record.open_jobs:
            self.open(job)
        self.unacknowledged = deque(record.unacknowledged)
        """In the order of their numbers."""
        self.marks: deque[Delivered] = deque(maxlen=keep_delivered * MARKS_PER_MESSAGE)
        """What was dropped before them."""
        self._drop(record.next_delivery_seq - 1 - keep_delivered)

    def record(self) -> SessionRecord:
        return msgspec.structs.replace(
            self._start,
            owner=self.owner,
            revision=self.revision,
            next_chunk_seq=self.next_chunk_seq,
            half_sample=self.half_sample,
            next_utterance_index=self.next_utterance_index,
            next_delivery_seq=self.next_delivery_seq,
            open_jobs=tuple(self.open_jobs[key] for key in sorted(self.open_jobs)),
            unacknowledged=(*self.marks, *self.unacknowledged),
            ended=dict(self.ended),
        )

    def may_be_replaced_by(self, record: SessionRecord) -> bool:
        if self.owner == record.owner:
            return self.revision < record.revision
        return self.owner.epoch < record.owner.epoch

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
        self._drop(entry.delivery_seq - self._keep_delivered)

    def let_go(self, upto: int) -> None:
        while self.marks and self.marks[0].delivery_seq <= upto:
            self.marks.popleft()
        while self.unacknowledged and self.unacknowledged[0].delivery_seq <= upto:
            self.unacknowledged.popleft()

    def _drop(self, upto: int) -> None:
        while self.unacknowledged and self.unacknowledged[0].delivery_seq <= upto:
            self.marks.append(mark_of(self.unacknowledged.popleft()))

    def _end(self, index: int, target: str) -> None:
        self.ended[target] = max(index, self.ended.get(target, -1))
        if len(self.ended) > MOST_TARGETS_ENDED:
            del self.ended[min(self.ended, key=lambda name: (self.ended[name], name))]


class MemoryRecords:
    """Session records in one process's memory; no other can own them, so they never lapse."""

    def __init__(self, keep_delivered: int) -> None:
        """keep_delivered is how far back unacknowledged deliveries are kept."""
        self._keep_delivered = keep_delivered
        self._kept: dict[SessionId, _Kept] = {}

    async def create(self, record: SessionRecord) -> None:
        await self.restore(record)

    async def restore(self, record: SessionRecord) -> int:
        kept = self._kept.get(record.session_id)
        if kept is not None and not kept.may_be_replaced_by(record):
            return 0
        self._kept[record.session_id] = _Kept(record, self._keep_delivered)
        return record.revision

    async def read(self, session_id: SessionId) -> SessionRecord | None:
        kept = self._kept.get(session_id)
        return kept.record() if kept is not None else None

    async def take(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        *,
        epoch: int | None = None,
    ) -> Taken | ChangedHands | None:
        kept = self._kept.get(session_id)
        if kept is None:
            return None
        before = kept.owner
        if (before.instance_id, before.connection_id) != (instance_id, connection_id):
            if epoch is not None and before.epoch != epoch:
                return ChangedHands()
            kept.owner = SessionOwner(instance_id, connection_id, before.epoch + 1)
            kept.revision += 1
        return Taken(kept.record(), before)

    async def renew(self, held: Sequence[Holding]) -> tuple[SessionId, ...]:
        return tuple(each.session_id for each in held if self._held(each) is None)

    async def opened(
        self,
        held: Holding,
        jobs: Sequence[OpenJob],
        *,
        next_chunk_seq: int,
        next_utterance_index: int,
        half_sample: bytes = b"",
    ) -> int:
        kept = self._held(held)
        if kept is None:
            return 0
        for job in jobs:
            kept.open(job)
        if next_chunk_seq > kept.next_chunk_seq:
            kept.next_chunk_seq = next_chunk_seq
            kept.half_sample = half_sample
        kept.next_utterance_index = max(kept.next_utterance_index, next_utterance_index)
        kept.revision += 1
        return kept.revision

    async def delivered(self, held: Holding, entries: Sequence[Delivered]) -> int:
        kept = self._held(held)
        if kept is None:
            return 0
        for entry in entries:
            kept.deliver(entry)
        kept.revision += 1
        return kept.revision

    async def acknowledged(self, held: Holding, upto: int) -> int:
        kept = self._held(held)
        if kept is None:
            return 0
        kept.let_go(upto)
        kept.revision += 1
        return kept.revision

    async def forget(self, session_id: SessionId, owner: SessionOwner) -> bool:
        kept = self._kept.get(session_id)
        if kept is None or kept.owner != owner:
            return False
        del self._kept[session_id]
        return True

    async def count(self) -> int:
        return len(self._kept)

    def _held(self, held: Holding) -> _Kept | None:
        """What is written to, when it is the writer's and has all that the writer has seen."""
        kept = self._kept.get(held.session_id)
        if kept is None or kept.revision < held.seen:
            return None
        # Mostly it is the very same; to compare all of it takes longer than the write.
        return kept if kept.owner is held.owner or kept.owner == held.owner else None
