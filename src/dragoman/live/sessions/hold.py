"""A session's hold on its record: every write goes through it, and what was lost is found out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dragoman.errors import DependencyDown
from dragoman.live.sessions.record import (
    Holding,
    OpenJob,
    SessionOwner,
    SessionRecord,
    SessionRecords,
)
from dragoman.live.sessions.tools import Client
from dragoman.observability import get_logger

log = get_logger("dragoman.sessions")


class Hold:
    """Writes to a session's record as its owner, and writes the whole of it again if it must.

    It must when the record is gone, and when it was taken back: Redis may fail over and lose what
    it had confirmed. Then the record's revision is behind what was seen here, and a write is
    refused; or a write that was on its way meanwhile got a number that another one had before.
    """

    def __init__(
        self,
        record: SessionRecord,
        records: SessionRecords,
        client: Client,
        *,
        compose: Callable[[], SessionRecord],
        on_lost: Callable[[SessionOwner], None],
        on_restored: Callable[[], None],
        on_doubt: Callable[[], None],
    ) -> None:
        """on_doubt is told when records may lack something that was stored, this one or others."""
        self._session_id = record.session_id
        self._records = records
        self._client = client
        self._compose = compose
        self._on_lost = on_lost
        self._on_restored = on_restored
        self._on_doubt = on_doubt
        self._seen = record.revision
        self._unheard: set[int] = set()
        """Lower revisions, of writes whose answers are still to come."""
        self.doubtful = False
        """Whether the record may lack something that was stored."""

    @property
    def holding(self) -> Holding:
        return Holding(self._session_id, self._client.owner, self._seen)

    def is_newer_than(self, record: SessionRecord) -> bool:
        """Whether the record lacks what was stored here."""
        owner = self._client.owner
        if record.owner != owner:
            return record.owner.epoch < owner.epoch
        return self.doubtful or record.revision < self._seen

    def own(self, owner: SessionOwner, revision: int) -> None:
        """The session goes on over another connection, since a revision of its record."""
        if owner == self._client.owner:
            return
        self._client.own(owner)
        if not self._is_confirmed(revision):
            self._doubt()

    async def write(self, send: Callable[[Holding], Awaitable[int]]) -> bool:
        """Make a write, again where it was refused or lost; False when the session is not ours.

        When another instance has it, it is let go of.
        """
        while not self.doubtful or await self.regain():
            seen = self._seen
            held = Holding(self._session_id, self._client.owner, seen)
            try:
                revision = await send(held)
            except DependencyDown:
                # If it was done, it may be in the place of one that was confirmed meanwhile.
                self._doubt(self._seen > seen)
                raise
            if self._is_confirmed(revision):
                return True
            if revision:
                self._doubt()
            elif not await self.regain():
                break
        return False

    async def regain(self, *, returning: bool = False) -> bool:
        """Look at the record, and write it again if it must be; False when it is not ours.

        Only who holds the client, or to whom it is just returning, writes a record that is gone.
        """
        doubtful, self.doubtful = self.doubtful, False
        try:
            while True:
                owner = self._client.owner
                found = await self._records.read(self._session_id)
                if self._client.owner != owner:
                    continue  # The client came back meanwhile, and this is older.
                ours = self._check(found, doubtful, returning)
                if isinstance(ours, bool):
                    return ours
                if await self._restore(ours):
                    return True
        except DependencyDown:
            self._doubt(doubtful)
            raise

    def _check(
        self, found: SessionRecord | None, doubtful: bool, returning: bool
    ) -> bool | SessionRecord:
        """Whether the record is ours and whole; what to write where it is not whole."""
        client = self._client
        if found is not None and client.is_spoken_for_by(found.owner):
            client.own(found.owner)
            if found.revision >= self._seen and not doubtful:
                return True
            return self._whole(found)
        if found is not None and found.owner.epoch >= client.epoch:
            self._on_lost(found.owner)
            return False
        # It is gone, or taken back to an earlier owner.
        return self._whole(None) if returning or client.link is not None else False

    def _whole(self, found: SessionRecord | None) -> SessionRecord:
        """All that is known to be stored, and what is found to be; as the next revision."""
        composed = self._compose()
        # From here on, an answer to a write that is on its way says nothing: what comes next may
        # replace it. What was done before is in what was found.
        self._unheard.clear()
        if found is not None:
            composed = joined(composed, found)
        return msgspec.structs.replace(composed, revision=composed.revision + 1)

    async def _restore(self, record: SessionRecord) -> bool:
        revision = await self._records.restore(record)
        if not revision:
            return False
        self._seen = max(self._seen, revision)
        log.info("session_restored", session_id=self._session_id)
        self._on_restored()
        return True

    def _doubt(self, doubtful: bool = True) -> None:
        self.doubtful |= doubtful
        self._on_doubt()

    def _is_confirmed(self, revision: int) -> bool:
        """Whether a write is known to stand, by the revision that it was answered with."""
        if revision > self._seen:
            if revision > self._seen + 1:
                self._unheard.update(range(self._seen + 1, revision))
            self._seen = revision
            return True
        if revision in self._unheard:
            self._unheard.remove(revision)
            return True
        return False


def joined(known: SessionRecord, found: SessionRecord) -> SessionRecord:
    """The record with all that its owner knows to be stored, and what was stored since.

    What is found is an earlier state, on which some writes may have been made whose answers the
    owner has not heard: utterances and numbers that are beyond what it knows.
    """
    ended = dict(known.ended)
    for target, index in found.ended.items():
        ended[target] = max(index, ended.get(target, -1))
    jobs: dict[tuple[int, str], OpenJob] = {
        (job.utterance_index, job.target): job
        for job in (
            *(job for job in found.open_jobs if job.utterance_index >= known.next_utterance_index),
            *known.open_jobs,
        )
        if job.utterance_index > ended.get(job.target, -1)
    }
    newer = [
        entry for entry in found.unacknowledged if entry.delivery_seq >= known.next_delivery_seq
    ]
    further = known if known.next_chunk_seq >= found.next_chunk_seq else found
    return msgspec.structs.replace(
        known,
        revision=max(known.revision, found.revision),
        next_chunk_seq=further.next_chunk_seq,
        half_sample=further.half_sample,
        next_utterance_index=max(known.next_utterance_index, found.next_utterance_index),
        next_delivery_seq=max(known.next_delivery_seq, found.next_delivery_seq),
        open_jobs=tuple(jobs[key] for key in sorted(jobs)),
        unacknowledged=(*known.unacknowledged, *newer),
        ended=ended,
    )
