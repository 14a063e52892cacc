"""One session's record in memory: its owner, its counters, what is open and what was sent.

Every method is one atomic step. The revision rises when a step changed something, so that a step
asked again answers the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.ids import ConnectionId, InstanceId
from dragoman.live.shared import records as r

Place = tuple[int, str]
"""An utterance's index, and a target."""


class ShardSession:
    """A session's record as it is written to."""

    def __init__(
        self, record: r.StoredSession, keep_delivered: int, before: r.SessionOwner | None = None
    ) -> None:
        self._start = record
        self._keep_delivered = keep_delivered
        self.session_id = record.session_id
        self.owner = record.owner
        self.before = before or record.owner
        """Whom the owner took the session from; itself when it began the session."""
        self.revision = record.revision
        self.next_chunk_seq = record.next_chunk_seq
        self.half_sample = record.half_sample
        self.next_index = record.next_index
        self.next_seq = record.next_seq
        self.expires_at_ms = 0
        self.past = b""
        """What was said last."""
        self._open = {(each.index, each.target): each for each in record.open}
        self._ended = dict(record.ended)
        self._sent: dict[int, r.Delivery] = {}
        """Unacknowledged deliveries by their numbers, in that order."""
        self._numbers: dict[Place, int] = {}
        for sent in record.unacknowledged:
            self._keep(sent.seq, sent.delivery)

    def record(self) -> r.StoredSession:
        start = self._start
        return r.StoredSession(
            session_id=self.session_id,
            tenant=start.tenant,
            secret_hash=start.secret_hash,
            init=start.init,
            owner=self.owner,
            revision=self.revision,
            next_chunk_seq=self.next_chunk_seq,
            half_sample=self.half_sample,
            next_index=self.next_index,
            next_seq=self.next_seq,
            open=tuple(self._open[place] for place in sorted(self._open)),
            unacknowledged=tuple(
                r.SentDelivery(seq, delivery) for seq, delivery in self._sent.items()
            ),
            ended=dict(self._ended),
        )

    # --- its owner ------------------------------------------------------------------------------

    def is_held_as(self, held: r.Holding) -> bool:
        """Whether the writer is the owner, and the record has all that the writer has seen."""
        return self.owner == held.owner and self.revision >= held.seen

    def is_older_than(self, record: r.StoredSession) -> bool:
        if self.owner == record.owner:
            return self.revision < record.revision
        return self.owner.epoch < record.owner.epoch

    def take(self, instance_id: InstanceId, connection_id: ConnectionId) -> None:
        self.before = self.owner
        self.owner = r.SessionOwner(instance_id, connection_id, self.owner.epoch + 1)
        self.revision += 1

    # --- utterances -----------------------------------------------------------------------------

    def open(self, opening: r.UtteranceOpening, utterances: Iterable[r.OpenUtterance]) -> None:
        """The next utterance has its jobs: its chunks need not be sent again."""
        for utterance in utterances:
            # A record that was restored may be older than what was delivered since.
            if utterance.index > self._ended.get(utterance.target, -1):
                self._open[utterance.index, utterance.target] = utterance
        self.next_index = opening.index + 1
        if opening.next_chunk_seq >= self.next_chunk_seq:
            self.next_chunk_seq = opening.next_chunk_seq
            self.half_sample = opening.half_sample
        self.revision += 1

    def deliver(self, entries: Iterable[r.Delivery]) -> tuple[int | None, ...]:
        """The number of each; None: its turn has not come, 0: it was acknowledged before."""
        before = self.next_seq
        numbers = tuple(self._deliver(entry) for entry in entries)
        if self.next_seq != before:
            self.revision += 1
        return numbers

    def acknowledge(self, upto: int, next_chunk_seq: int = 0, half_sample: bytes = b"") -> None:
        arrived = [seq for seq in self._sent if seq <= upto]
        for seq in arrived:
            self._forget(seq)
        heard_more = next_chunk_seq > self.next_chunk_seq
        if heard_more:
            self.next_chunk_seq, self.half_sample = next_chunk_seq, half_sample
        if arrived or heard_more:
            self.revision += 1

    # --- inside ---------------------------------------------------------------------------------

    def _deliver(self, entry: r.Delivery) -> int | None:
        place = (entry.index, entry.target)
        known = self._numbers.get(place)
        if known is not None:
            return known
        if entry.index >= self.next_index:
            return None
        if place not in self._open:
            # A job was open before it could be delivered. What has no job may never have been.
            ended = self._ended.get(entry.target, -1)
            if entry.job_id is not None or entry.index <= ended:
                return 0
        if any(index < entry.index for index, target in self._open if target == entry.target):
            return None
        self._open.pop(place, None)
        self._end(entry)
        seq = self.next_seq
        self.next_seq += 1
        self._keep(seq, entry)
        return seq

    def _end(self, entry: r.Delivery) -> None:
        ended = self._ended
        ended[entry.target] = max(entry.index, ended.get(entry.target, -1))
        if len(ended) > r.MOST_TARGETS_ENDED:
            del ended[min(ended, key=lambda target: (ended[target], target))]

    def _keep(self, seq: int, delivery: r.Delivery) -> None:
        self._sent[seq] = delivery
        self._numbers[delivery.index, delivery.target] = seq
        mark = seq - self._keep_delivered
        dropped = self._sent.get(mark)
        if dropped is not None:
            self._sent[mark] = r.Delivery(
                dropped.index, dropped.target, None, dropped.reason or r.DROPPED
            )
        self._forget(seq - self._keep_delivered * (1 + r.MARKS_PER_DELIVERY))

    def _forget(self, seq: int) -> None:
        delivery = self._sent.pop(seq, None)
        if delivery is not None:
            self._numbers.pop((delivery.index, delivery.target), None)
