"""The slots of one cell: who holds them, and the steps in which they change hands."""

from __future__ import annotations

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Ending, Sender, SlotAsk
from dragoman.live.ledger.memory.due import DueQueue
from dragoman.live.ledger.memory.seats import Attempt, Heir, Seat, Whereabouts
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome

ENDED_DUE_MS = 1_000
"""How long an attempt that ended without its node's word waits for the instance that ended it."""

LOST = ErrorInfo(code="NODE_UNAVAILABLE", message="The node that carried the attempt is gone.")

LOST_ENDING = Ending(Outcome.FAILED, error=LOST)


class Freeing:
    """Counts what an operation gives back."""

    def __init__(self) -> None:
        self.slots = 0
        self.inherited: list[a.Inherited] = []

    def answer(self) -> a.Freed:
        if not self.slots and not self.inherited:
            return a.NOTHING_FREED
        return a.Freed(self.slots, tuple(self.inherited))


class Slots:
    """What a cell's nodes offer and its attempts hold; each step keeps the two in agreement."""

    def __init__(self, number: int, cell_size: int, whereabouts: Whereabouts) -> None:
        self.number = number
        self.seats: dict[NodeId, Seat] = {}
        self.by_index: list[Seat | None] = [None] * cell_size
        self.not_full = 0
        """The indexes of the seats that may have a free slot, as a mask."""
        self.held: dict[AttemptId, Attempt] = {}
        self.ended: dict[AttemptId, Attempt] = {}
        self.whereabouts = whereabouts
        self.due = DueQueue[AttemptId](self._due_at)

    def seat_of(self, sender: Sender) -> Seat | a.Stale | a.NotSeated:
        """The seat the sender may speak for."""
        seat = self.seats.get(sender.node_id)
        if seat is None or sender.epoch > seat.owner.epoch:
            return a.NotSeated(sender.node_id)
        if sender.epoch < seat.owner.epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        return seat

    def refresh(self, seat: Seat, now_ms: int) -> None:
        """Keep the set of nodes that are not full true."""
        if seat.takes(now_ms):
            self.not_full |= 1 << seat.index
        else:
            self.not_full &= ~(1 << seat.index)

    def hold(
        self, seat: Seat, job_id: JobId, attempt_id: AttemptId, terms: SlotAsk | Heir, now_ms: int
    ) -> None:
        """Grant a slot of the seat to a new attempt."""
        batch = isinstance(terms, SlotAsk) and terms.job_class is JobClass.BATCH
        # A slot that came free elsewhere ends the wait for an inheritance: one attempt, one slot.
        self.whereabouts.give_up_waiting(attempt_id)
        attempt = Attempt(
            attempt_id=attempt_id,
            cell=self.number,
            job_id=job_id,
            node_id=seat.node_id,
            owner=seat.owner,
            job_class=JobClass.BATCH if batch else JobClass.LIVE,
            lease_ms=terms.lease_ms,
            run_ms=terms.run_ms,
            due_at_ms=now_ms + terms.ack_ms,
            dispatched_ms=now_ms,
            preemptions=terms.preemptions if isinstance(terms, SlotAsk) else 0,
        )
        self.occupy(seat, attempt)

    def occupy(self, seat: Seat, attempt: Attempt) -> None:
        """The attempt has a slot of the seat from now on."""
        self.held[attempt.attempt_id] = attempt
        self.whereabouts.held += 1
        self.whereabouts.cells[attempt.attempt_id] = self.number
        seat.held[attempt.attempt_id] = attempt
        if len(seat.held) >= seat.slots:
            self.not_full &= ~(1 << seat.index)
        self.due.watch(attempt.attempt_id, attempt.due_at_ms)

    def listed(self, attempt: Attempt, number: int, now_ms: int) -> None:
        """The node says that it runs the attempt: that is as good as an acknowledgement."""
        if attempt.state is AttemptState.CANCELLING:
            attempt.acknowledge(number)
            return
        if attempt.state is AttemptState.DISPATCHED:
            attempt.state = AttemptState.ACCEPTED
        attempt.accept(number, now_ms)
        self.due.watch(attempt.attempt_id, attempt.due_at_ms)

    def cancel(self, attempt: Attempt, error: ErrorInfo, grace_ms: int, now_ms: int) -> None:
        """Take the attempt from its node, which keeps the slot until it has let go."""
        attempt.state = AttemptState.CANCELLING
        attempt.error = error
        attempt.due_at_ms = now_ms + grace_ms
        self.due.watch(attempt.attempt_id, attempt.due_at_ms)

    def give_up(self, attempt: Attempt, freed: Freeing, now_ms: int) -> None:
        """The node no longer has the attempt: a cancelled one is gone, another one is lost."""
        if attempt.state is AttemptState.CANCELLING:
            self.free(attempt, freed, now_ms)
        else:
            self.end(attempt, LOST_ENDING, now_ms + ENDED_DUE_MS, freed, now_ms)

    def end(
        self, attempt: Attempt, ending: Ending, due_at_ms: int, freed: Freeing, now_ms: int
    ) -> None:
        """Outcome stored, slot free: one step."""
        self.ended[attempt.attempt_id] = attempt
        self.free(attempt, freed, now_ms)
        attempt.state = AttemptState.FINISHED
        attempt.outcome, attempt.output, attempt.error = (
            ending.outcome,
            ending.output,
            ending.error,
        )
        attempt.finished_ms = now_ms
        attempt.due_at_ms = due_at_ms
        self.due.watch(attempt.attempt_id, due_at_ms)

    def free(self, attempt: Attempt, freed: Freeing, now_ms: int) -> None:
        """Give the slot back once, to the heir if there is one and the seat still takes."""
        del self.held[attempt.attempt_id]
        self.whereabouts.held -= 1
        seat = self.seats[attempt.node_id]
        del seat.held[attempt.attempt_id]
        if attempt.attempt_id not in self.ended:
            self.due.forget(attempt.attempt_id)
            self.whereabouts.leaves(attempt.attempt_id, self.number)
        self.refresh(seat, now_ms)
        heir = attempt.heir
        if heir is not None:
            self.whereabouts.give_up_waiting(heir.attempt_id)
        if not seat.takes(now_ms):
            return
        if heir is None:
            freed.slots += 1
            return
        self.hold(seat, heir.job_id, heir.attempt_id, heir, now_ms)
        freed.inherited.append(a.Inherited(heir.job_id, heir.attempt_id))

    def _due_at(self, attempt_id: AttemptId) -> int | None:
        times = [
            attempt.due_at_ms
            for attempt in (self.ended.get(attempt_id), self.held.get(attempt_id))
            if attempt is not None
        ]
        return min(times, default=None)
