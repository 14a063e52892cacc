"""One cell in memory: the attempts that hold its slots, and nothing that waits.

Every method is one atomic step: it is told the time and never awaits.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from dragoman.ids import AttemptId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Adoption, Ending, Sender, SlotAsk
from dragoman.live.ledger.memory.choice import CHOICES, indexes
from dragoman.live.ledger.memory.making_room import leaves_headroom, victim_of
from dragoman.live.ledger.memory.seating import Seating
from dragoman.live.ledger.memory.seats import Attempt, Heir, Seat, Whereabouts
from dragoman.live.ledger.memory.slots import Freeing, Slots
from dragoman.live.ledger.records import AttemptRecord
from dragoman.live.ledger.states import ORDER
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome

PREEMPTED = ErrorInfo(code="PREEMPTED", message="The slot was needed for live work.")


class Cell:
    """At most cell_size nodes; the unit in which choosing and reserving are one step."""

    def __init__(
        self, number: int, cell_size: int, whereabouts: Whereabouts, *, version: int = 0
    ) -> None:
        slots = Slots(number, cell_size, whereabouts)
        self.number = number
        self.seating = Seating(slots, version)
        self.seats = slots.seats
        self.held = slots.held
        self.ended = slots.ended
        self._slots = slots
        self._by_index = slots.by_index
        self._whereabouts = whereabouts
        self._due = slots.due

    def find(self, attempt_id: AttemptId) -> a.Granted | a.Gone | None:
        """What an earlier ask with the same attempt_id got here."""
        attempt = self.held.get(attempt_id)
        if attempt is not None:
            if attempt.state is AttemptState.CANCELLING:
                return a.Gone()
            seat = self.seats[attempt.node_id]
            return a.Granted(
                self.number, seat.index, seat.node_id, attempt.owner, attempt.dispatched_ms
            )
        return a.Gone() if attempt_id in self.ended else None

    def reserve(
        self, ask: SlotAsk, mask: int, now_ms: int, random: Random
    ) -> a.Granted | a.Full | None:
        """A slot, or None when no candidate has one; Full when they are kept for live work."""
        free = mask & self._slots.not_full
        if not free:
            return None
        if ask.job_class is JobClass.BATCH and not leaves_headroom(
            self._by_index, mask, ask.headroom, now_ms
        ):
            return a.Full(headroom=True)
        choose = CHOICES[ask.strategy]
        while free:
            index = choose(free, self._by_index, random)
            seat = self._by_index[index]
            if seat is not None and seat.alive_until_ms > now_ms:
                self._slots.hold(seat, ask.job_id, ask.attempt_id, ask, now_ms)
                return a.Granted(self.number, index, seat.node_id, seat.owner, now_ms)
            free &= ~(1 << index)
            self._slots.not_full &= ~(1 << index)
        return None

    def preempt(self, ask: SlotAsk, mask: int, now_ms: int) -> a.Preempting | None:
        victim = victim_of(self._by_index, mask, ask.max_preemptions, now_ms)
        if victim is None:
            return None
        self._slots.cancel(victim, PREEMPTED, ask.grace_ms, now_ms)
        victim.heir = Heir(ask.job_id, ask.attempt_id, ask.ack_ms, ask.lease_ms, ask.run_ms)
        self._whereabouts.victims[ask.attempt_id] = victim
        return victim.preempted_for(now_ms)

    def transition(
        self, attempt_id: AttemptId, sender: Sender, to: AttemptState, number: int, now_ms: int
    ) -> a.Moved | a.Repeat | a.Stale:
        attempt = self._attempt_of(attempt_id, sender)
        if isinstance(attempt, a.Stale):
            return attempt
        if attempt.state is AttemptState.CANCELLING:
            attempt.acknowledge(number)
            return a.Stale(a.StaleReason.LATE)
        if ORDER[to] <= ORDER[attempt.state]:
            return a.Repeat(attempt.job_id, now_ms)
        attempt.state = to
        attempt.accept(number, now_ms)
        if to is AttemptState.RUNNING:
            attempt.running_ms = now_ms
        self._due.watch(attempt_id, attempt.due_at_ms)
        return a.Moved(attempt.job_id, now_ms)

    def finish(
        self, attempt_id: AttemptId, sender: Sender, ending: Ending, due_ms: int, now_ms: int
    ) -> a.Finished | a.LateFinish | a.Stale:
        attempt = self._attempt_of(attempt_id, sender)
        if isinstance(attempt, a.Stale):
            return attempt
        freed = Freeing()
        if attempt.state is AttemptState.CANCELLING:
            self._slots.free(attempt, freed, now_ms)
            return a.LateFinish(attempt.job_id, freed.answer())
        if ending.outcome is Outcome.SUCCESS:
            started_ms = attempt.accepted_ms or attempt.dispatched_ms
            self.seats[attempt.node_id].measured(max(1, now_ms - started_ms))
        attempt.by_node = True
        self._slots.end(attempt, ending, now_ms + due_ms, freed, now_ms)
        return a.Finished(attempt.job_id, freed.answer(), now_ms)

    def cancel(
        self, attempt_id: AttemptId, error: ErrorInfo, grace_ms: int, now_ms: int
    ) -> a.CancelWon | a.AlreadyEnded | a.Stale:
        attempt = self.held.get(attempt_id)
        if attempt is not None and attempt_id not in self.ended:
            if attempt.state is not AttemptState.CANCELLING:
                self._slots.cancel(attempt, error, grace_ms, now_ms)
            return a.CancelWon(attempt.job_id, attempt.node_id, attempt.owner)
        ended = self.ended.get(attempt_id)
        if ended is not None and ended.outcome is not None:
            return a.AlreadyEnded(ended.job_id, ended.outcome, ended.error)
        return a.Stale(a.StaleReason.UNKNOWN)

    def drop(self, attempt_id: AttemptId, now_ms: int) -> a.Dropped | a.Stale:
        self._whereabouts.give_up_waiting(attempt_id)
        attempt = self.held.get(attempt_id)
        if attempt is None:
            return a.Dropped(a.NOTHING_FREED)
        if attempt.acked or attempt.state is not AttemptState.DISPATCHED:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        freed = Freeing()
        self._slots.free(attempt, freed, now_ms)
        return a.Dropped(freed.answer())

    def mark_asked(self, attempt_id: AttemptId, grace_ms: int, now_ms: int) -> a.Done | a.Stale:
        attempt = self.held.get(attempt_id)
        if attempt is None or attempt.state is not AttemptState.CANCELLING:
            return a.Stale(a.StaleReason.UNKNOWN)
        attempt.asked = True
        attempt.due_at_ms = now_ms + grace_ms
        return a.Done()

    def adopt(self, adoption: Adoption, now_ms: int) -> a.Adopted | a.Stale | a.NotSeated:
        seat = self._slots.seat_of(adoption.sender)
        if not isinstance(seat, Seat):
            return seat
        attempt_id = adoption.running.attempt_id
        known = self.held.get(attempt_id)
        if known is not None:
            return (
                a.Adopted() if known.node_id == seat.node_id else a.Stale(a.StaleReason.WRONG_NODE)
            )
        if adoption.wanted and attempt_id in self.ended:
            return a.Stale(a.StaleReason.LATE)
        attempt = Attempt(
            attempt_id=attempt_id,
            cell=self.number,
            job_id=adoption.running.job_id,
            node_id=seat.node_id,
            owner=seat.owner,
            job_class=adoption.job_class,
            lease_ms=adoption.lease_ms,
            run_ms=adoption.run_ms,
            due_at_ms=0,
            state=AttemptState.RUNNING if adoption.wanted else AttemptState.CANCELLING,
            dispatched_ms=now_ms,
        )
        attempt.accept(adoption.number, now_ms)
        attempt.running_ms = now_ms
        self._slots.occupy(seat, attempt)
        return a.Adopted()

    def settle(self, attempt_ids: Iterable[AttemptId]) -> None:
        for attempt_id in attempt_ids:
            if self.ended.pop(attempt_id, None) is not None and attempt_id not in self.held:
                self._due.forget(attempt_id)
                self._whereabouts.leaves(attempt_id, self.number)

    def read_attempt(self, attempt_id: AttemptId) -> AttemptRecord | None:
        attempt = self.ended.get(attempt_id) or self.held.get(attempt_id)
        return attempt.record() if attempt else None

    def due(self, now_ms: int, limit: int) -> list[AttemptRecord]:
        return [
            (self.ended.get(name) or self.held[name]).record()
            for name in self._due.due(now_ms, limit)
        ]

    def expected(self, mask: int) -> tuple[int, int, float]:
        """Slots, slots held, and slots that come free per millisecond, over the candidates."""
        slots = held = 0
        rate = 0.0
        for index in indexes(mask):
            seat = self._by_index[index]
            if seat is None:
                continue
            slots += seat.slots
            held += len(seat.held)
            if seat.mean_ms:
                rate += len(seat.held) / seat.mean_ms
        return slots, held, rate

    # --- inside ----------------------------------------------------------------------------------

    def _attempt_of(self, attempt_id: AttemptId, sender: Sender) -> Attempt | a.Stale:
        """The attempt, if the sender may speak for it."""
        attempt = self.held.get(attempt_id) or self.ended.get(attempt_id)
        if attempt is None:
            return a.Stale(a.StaleReason.UNKNOWN)
        if attempt.node_id != sender.node_id:
            return a.Stale(a.StaleReason.WRONG_NODE)
        if attempt.owner.epoch != sender.epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        if attempt.state is AttemptState.FINISHED:
            reason = a.StaleReason.DUPLICATE if attempt.by_node else a.StaleReason.LATE
            return a.Stale(reason)
        return attempt
