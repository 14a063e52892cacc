"""What is known to be stored of a session: enough to write its record again when that is lost."""

from __future__ import annotations

import msgspec

from dragoman.ids import JobId
from dragoman.live.shared import records as r

Place = tuple[int, str]
"""An utterance's index, and a target as requests are bound by it."""


class KnownRecord:
    """A session's record without what the client has not heard.

    Utterances are in it once their opening was answered, ends once the client was told of them.
    """

    def __init__(self, record: r.StoredSession, keep_delivered: int) -> None:
        self._start = record
        self._keep_delivered = keep_delivered
        self.next_index = record.next_index
        """Utterances below it are stored."""
        self.next_chunk_seq = record.next_chunk_seq
        """Chunks below it are in stored utterances."""
        self.half_sample = record.half_sample
        """What the chunks before it end with, and no utterance has."""
        self.next_seq = record.next_seq
        """The first number that the client has not heard."""
        self.open = {(each.index, each.target): each.job_id for each in record.open}
        self._sent = {each.seq: each.delivery for each in record.unacknowledged}
        self._ended = dict(record.ended)

    def opened(
        self, index: int, places: dict[Place, JobId], next_chunk_seq: int, half_sample: bytes
    ) -> None:
        """An utterance is stored, and its chunks need not be sent again."""
        if index < self.next_index:
            return
        self.next_index = index + 1
        self.open |= places
        # With voice activity several utterances may end in one chunk.
        if next_chunk_seq >= self.next_chunk_seq:
            self.next_chunk_seq, self.half_sample = next_chunk_seq, half_sample

    def heard_until(self, next_chunk_seq: int, place: bytes) -> None:
        """Chunks of silence need not be sent again."""
        if next_chunk_seq > self.next_chunk_seq:
            self.next_chunk_seq, self.half_sample = next_chunk_seq, place

    def made_again(self, place: Place, job_id: JobId) -> bool:
        """The utterance is this job's now; False when that is known, or it is not open."""
        if self.open.get(place, job_id) == job_id:
            return False
        self.open[place] = job_id
        return True

    def told(self, entry: r.Delivery) -> int:
        """The client hears of an end, under the next number."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self.ended(entry)
        self._sent[seq] = entry
        mark = seq - self._keep_delivered
        dropped = self._sent.get(mark)
        if dropped is not None:
            reason = dropped.reason or r.DROPPED
            self._sent[mark] = r.Delivery(dropped.index, dropped.target, None, reason)
        self._sent.pop(seq - self._keep_delivered * (1 + r.MARKS_PER_DELIVERY), None)
        return seq

    def ended(self, entry: r.Delivery) -> None:
        """An utterance is no longer open for a target."""
        self.open.pop((entry.index, entry.target), None)
        ended = self._ended
        ended[entry.target] = max(entry.index, ended.get(entry.target, -1))
        if len(ended) > r.MOST_TARGETS_ENDED:
            del ended[min(ended, key=lambda target: (ended[target], target))]

    def acknowledged(self, upto: int) -> int:
        """The client has everything up to a number; the last that is let go of, or 0."""
        arrived = [seq for seq in self._sent if seq <= upto]
        for seq in arrived:
            del self._sent[seq]
        return arrived[-1] if arrived else 0

    def lacks(self, found: r.StoredSession) -> bool:
        """Whether a stored record lacks something that is known to have been stored in it."""
        if found.next_index < self.next_index or found.next_seq < self.next_seq:
            return True
        if found.next_chunk_seq < self.next_chunk_seq:
            return True
        if any(
            self.open.get((each.index, each.target), each.job_id) != each.job_id
            for each in found.open
        ):
            return True
        return _differ({each.seq: each.delivery for each in found.unacknowledged}, self._sent)

    def stored(self, owner: r.SessionOwner, revision: int) -> r.StoredSession:
        """The record as its owner would write it."""
        return msgspec.structs.replace(
            self._start,
            owner=owner,
            revision=revision,
            next_chunk_seq=self.next_chunk_seq,
            half_sample=self.half_sample,
            next_index=self.next_index,
            next_seq=self.next_seq,
            open=tuple(
                r.OpenUtterance(index, target, self.open[index, target])
                for index, target in sorted(self.open)
            ),
            unacknowledged=tuple(r.SentDelivery(seq, entry) for seq, entry in self._sent.items()),
            ended=dict(self._ended),
        )


def joined(known: r.StoredSession, found: r.StoredSession) -> r.StoredSession:
    """The record with all that its owner knows to be stored, and what was stored since.

    What is found may be an earlier state, on which some steps may have been made whose answers
    the owner has not heard: utterances and numbers that are beyond what it knows.
    """
    opened = {(each.index, each.target): each for each in known.open}
    later = [each for each in found.open if each.index >= known.next_index]
    opened |= {(each.index, each.target): each for each in later}
    newer = _newer(known, found, set(opened))
    ended = dict(known.ended)
    for each in newer:
        entry = each.delivery
        del opened[entry.index, entry.target]
        ended[entry.target] = max(entry.index, ended.get(entry.target, -1))
    ahead = (found.next_chunk_seq, found.next_index) > (known.next_chunk_seq, known.next_index)
    further = found if ahead else known
    return msgspec.structs.replace(
        known,
        revision=max(known.revision, found.revision),
        next_chunk_seq=further.next_chunk_seq,
        half_sample=further.half_sample,
        next_index=max(known.next_index, found.next_index),
        next_seq=known.next_seq + len(newer),
        open=tuple(opened[place] for place in sorted(opened)),
        unacknowledged=(*known.unacknowledged, *newer),
        ended=ended,
    )


def _newer(
    known: r.StoredSession, found: r.StoredSession, opened: set[Place]
) -> tuple[r.SentDelivery, ...]:
    """Numbers that were given, and that the owner has not heard of.

    None of them, where the record went another way than the client heard: those ends are numbered
    again.
    """
    kept = {each.seq: each.delivery for each in found.unacknowledged}
    newer = tuple(each for each in found.unacknowledged if each.seq >= known.next_seq)
    left = set(opened)
    for seq, each in enumerate(newer, known.next_seq):
        index, target = each.delivery.index, each.delivery.target
        if each.seq != seq or (index, target) not in left:
            return ()
        left.remove((index, target))
        if any(before < index and of == target for before, of in left):
            return ()
    if any(
        seq < known.next_seq and (entry.index, entry.target) in opened
        for seq, entry in kept.items()
    ):
        return ()
    told = {each.seq: each.delivery for each in known.unacknowledged if each.seq in kept}
    return () if _differ(kept, told) else newer


def _differ(kept: dict[int, r.Delivery], told: dict[int, r.Delivery]) -> bool:
    """Whether a number that was told is not there, or is another end's."""
    for seq, entry in told.items():
        found = kept.get(seq)
        if found is None or (found.index, found.target) != (entry.index, entry.target):
            return True
    return False
