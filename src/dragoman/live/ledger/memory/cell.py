"""One cell in memory: seats, the attempts that hold their slots, and nothing that waits.

Every method is one atomic step: it is told the time and never awaits.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Adoption, Ending, Heartbeat, Placement, Sender, SlotAsk
from dragoman.live.ledger.memory.choice import CHOICES, indexes
from dragoman.live.ledger.memory.due import DueQueue
from dragoman.live.ledger.memory.seats import Attempt, Heir, Seat, Whereabouts
from dragoman.live.ledger.records import AttemptRecord, CellRecord
from dragoman.live.ledger.states import ORDER
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome, RunningJob

ENDED_DUE_MS = 1_000
"""How long an attempt that ended without its node's word waits for whoever ended it."""

LOST = ErrorInfo(code="NODE_UNAVAILABLE", message="The node that carried the attempt is gone.")

LOST_ENDING = Ending(Outcome.FAILED, error=LOST)
PREEMPTED = ErrorInfo(code="PREEMPTED", message="The slot was needed for live work.")

_RUNS = (AttemptState.DISPATCHED, AttemptState.ACCEPTED, AttemptState.RUNNING)


class _Freeing:
    """Counts what an operation gives back."""

    def __init__(self) -> None:
        self.slots = 0
        self.inherited: list[a.Inherited] = []

    def answer(self) -> a.Freed:
        if not self.slots and not self.inherited:
            return a.NOTHING_FREED
        return a.Freed(self.slots, tuple(self.inherited))


class Cell:
    """At most cell_size nodes; the unit in which choosing and reserving are one step."""

    def __init__(
        self, number: int, cell_size: int, whereabouts: Whereabouts, *, version: int = 0
    ) -> None:
        self.number = number
        self.version = version
        self.seats: dict[NodeId, Seat] = {}
        self.held: dict[AttemptId, Attempt] = {}
        self.ended: dict[AttemptId, Attempt] = {}
        self._by_index: list[Seat | None] = [None] * cell_size
        self._not_full = 0
        self._whereabouts = whereabouts
        self._due = DueQueue[AttemptId](self._due_at)

    # --- seats -----------------------------------------------------------------------------------

    def place(self, placement: Placement, now_ms: int) -> a.Placed | a.CellFull | a.Stale:
        seat = self.seats.get(placement.node_id)
        if seat is None:
            if None not in self._by_index:
                return a.CellFull()
            seat = Seat(
                node_id=placement.node_id,
                index=self._by_index.index(None),
                slots=placement.slots,
                owner=placement.owner,
                alive_until_ms=0,
            )
            self.seats[seat.node_id] = seat
            self._by_index[seat.index] = seat
        elif placement.owner.epoch < seat.owner.epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        seat.owner, seat.slots, seat.facts = placement.owner, placement.slots, placement.facts
        seat.online = True
        seat.alive_until_ms = now_ms + placement.lease_ms
        self.version += 1
        listed = {running.attempt_id: running for running in placement.running}
        passed: list[RunningJob] = []
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed = _Freeing()
        for attempt in list(seat.held.values()):
            here = listed.pop(attempt.attempt_id, None) is not None
            if attempt.owner.epoch == seat.owner.epoch:
                continue
            if here:
                attempt.owner = seat.owner
                self._listed(attempt, now_ms)
                (cancelling if attempt.state is AttemptState.CANCELLING else passed).append(
                    attempt.running
                )
            else:
                if attempt.state is not AttemptState.CANCELLING:
                    lost.append(attempt.running)
                self._give_up(attempt, freed, now_ms)
        self._refresh(seat, now_ms)
        return a.Placed(
            index=seat.index,
            version=self.version,
            drained=seat.drained,
            passed=tuple(passed),
            lost=tuple(lost),
            cancelling=tuple(cancelling),
            unknown=tuple(listed.values()),
            freed=freed.answer(),
        )

    def amend(
        self, sender: Sender, slots: int | None, facts: bytes | None, now_ms: int
    ) -> a.Done | a.Stale | a.NotSeated:
        seat = self._seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        if slots is not None:
            seat.slots = slots
        if facts is not None:
            seat.facts = facts
        self.version += 1
        self._refresh(seat, now_ms)
        return a.Done()

    def set_drained(self, node_id: NodeId, drained: bool, now_ms: int) -> a.Done | a.NotSeated:
        seat = self.seats.get(node_id)
        if seat is None:
            return a.NotSeated(node_id)
        seat.drained = drained
        self.version += 1
        self._refresh(seat, now_ms)
        return a.Done()

    def disconnect(self, sender: Sender, now_ms: int) -> a.Done | a.Stale | a.NotSeated:
        seat = self._seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        seat.online = False
        self.version += 1
        self._refresh(seat, now_ms)
        return a.Done()

    def lose(
        self, sender: Sender, only_if_silent: bool, now_ms: int
    ) -> a.NodeLost | a.Stale | a.NotSeated:
        seat = self._seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        if only_if_silent and seat.alive_until_ms > now_ms:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        seat.online = False
        self.version += 1
        self._refresh(seat, now_ms)
        freed = _Freeing()
        lost = []
        for attempt in list(seat.held.values()):
            if attempt.state is not AttemptState.CANCELLING:
                lost.append(attempt.running)
            self._give_up(attempt, freed, now_ms)
        return a.NodeLost(tuple(lost), freed.answer())

    def remove(self, sender: Sender, now_ms: int) -> a.NodeLost | a.Stale | a.NotSeated:
        gone = self.lose(sender, False, now_ms)
        if isinstance(gone, a.NodeLost):
            seat = self.seats.pop(sender.node_id)
            self._by_index[seat.index] = None
            self._not_full &= ~(1 << seat.index)
        return gone

    def beat(self, heartbeat: Heartbeat, now_ms: int) -> a.Beat | a.Stale | a.NotSeated:
        seat = self._seat_of(Sender(heartbeat.node_id, heartbeat.epoch))
        if not isinstance(seat, Seat):
            return seat
        if not seat.online:
            # It was given up while its connection lived: it takes its seat again by being placed.
            return a.NotSeated(seat.node_id)
        seat.alive_until_ms = now_ms + heartbeat.lease_ms
        self._refresh(seat, now_ms)
        if not seat.held and not heartbeat.running:
            return a.Beat()
        listed = {running.attempt_id: running for running in heartbeat.running}
        lost, cancelling = [], []
        freed = _Freeing()
        for attempt in list(seat.held.values()):
            if listed.pop(attempt.attempt_id, None) is not None:
                self._listed(attempt, now_ms)
                if attempt.state is AttemptState.CANCELLING:
                    cancelling.append(attempt.running)
            elif attempt.state is AttemptState.CANCELLING:
                if attempt.acked or attempt.asked:
                    self._give_up(attempt, freed, now_ms)
            elif attempt.acked:
                lost.append(attempt.running)
                self._give_up(attempt, freed, now_ms)
        return a.Beat(tuple(lost), tuple(listed.values()), tuple(cancelling), freed.answer())

    def record(self) -> CellRecord:
        seats = sorted(self.seats.values(), key=lambda seat: seat.index)
        return CellRecord(self.number, self.version, tuple(seat.record() for seat in seats))

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

    # --- attempts --------------------------------------------------------------------------------

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
        free = mask & self._not_full
        if not free:
            return None
        if ask.job_class is JobClass.BATCH and not self._leaves_headroom(
            mask, ask.headroom, now_ms
        ):
            return a.Full(headroom=True)
        choose = CHOICES[ask.strategy]
        while free:
            index = choose(free, self._by_index, random)
            seat = self._by_index[index]
            if seat is not None and seat.alive_until_ms > now_ms:
                self._hold(seat, ask.job_id, ask.attempt_id, ask, now_ms)
                return a.Granted(self.number, index, seat.node_id, seat.owner, now_ms)
            free &= ~(1 << index)
            self._not_full &= ~(1 << index)
        return None

    def preempt(self, ask: SlotAsk, mask: int, now_ms: int) -> a.Preempting | None:
        victim = self._victim(mask, ask.max_preemptions, now_ms)
        if victim is None:
            return None
        self._cancel(victim, PREEMPTED, ask.grace_ms, now_ms)
        victim.heir = Heir(ask.job_id, ask.attempt_id, ask.ack_ms, ask.lease_ms, ask.run_ms)
        self._whereabouts.victims[ask.attempt_id] = victim
        return victim.preempted_for(now_ms)

    def transition(
        self, attempt_id: AttemptId, sender: Sender, to: AttemptState, now_ms: int
    ) -> a.Moved | a.Repeat | a.Stale:
        attempt = self._attempt_of(attempt_id, sender)
        if isinstance(attempt, a.Stale):
            return attempt
        if attempt.state is AttemptState.CANCELLING:
            attempt.acked = True
            return a.Stale(a.StaleReason.LATE)
        if ORDER[to] <= ORDER[attempt.state]:
            return a.Repeat(attempt.job_id)
        attempt.state = to
        attempt.accept(now_ms)
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
        freed = _Freeing()
        if attempt.state is AttemptState.CANCELLING:
            self._free(attempt, freed, now_ms)
            return a.LateFinish(attempt.job_id, freed.answer())
        if ending.outcome is Outcome.SUCCESS:
            started_ms = attempt.accepted_ms or attempt.dispatched_ms
            self.seats[attempt.node_id].measured(max(1, now_ms - started_ms))
        attempt.by_node = True
        self._end(attempt, ending, now_ms + due_ms, freed, now_ms)
        return a.Finished(attempt.job_id, freed.answer(), now_ms)

    def cancel(
        self, attempt_id: AttemptId, error: ErrorInfo, grace_ms: int, now_ms: int
    ) -> a.CancelWon | a.AlreadyEnded | a.Stale:
        attempt = self.held.get(attempt_id)
        if attempt is not None and attempt_id not in self.ended:
            if attempt.state is not AttemptState.CANCELLING:
                self._cancel(attempt, error, grace_ms, now_ms)
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
        freed = _Freeing()
        self._free(attempt, freed, now_ms)
        return a.Dropped(freed.answer())

    def mark_asked(self, attempt_id: AttemptId, grace_ms: int, now_ms: int) -> a.Done | a.Stale:
        attempt = self.held.get(attempt_id)
        if attempt is None or attempt.state is not AttemptState.CANCELLING:
            return a.Stale(a.StaleReason.UNKNOWN)
        attempt.asked = True
        attempt.due_at_ms = now_ms + grace_ms
        return a.Done()

    def adopt(self, adoption: Adoption, now_ms: int) -> a.Adopted | a.Stale | a.NotSeated:
        seat = self._seat_of(adoption.sender)
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
        attempt.accept(now_ms)
        attempt.running_ms = now_ms
        self._seat_attempt(seat, attempt, now_ms)
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

    # --- inside ----------------------------------------------------------------------------------

    def _due_at(self, attempt_id: AttemptId) -> int | None:
        times = [
            attempt.due_at_ms
            for attempt in (self.ended.get(attempt_id), self.held.get(attempt_id))
            if attempt is not None
        ]
        return min(times, default=None)

    def _seat_of(self, sender: Sender) -> Seat | a.Stale | a.NotSeated:
        seat = self.seats.get(sender.node_id)
        if seat is None or sender.epoch > seat.owner.epoch:
            return a.NotSeated(sender.node_id)
        if sender.epoch < seat.owner.epoch:
            return a.Stale(a.StaleReason.OLD_ATTEMPT)
        return seat

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

    def _refresh(self, seat: Seat, now_ms: int) -> None:
        """Keep the set of nodes that are not full true."""
        if seat.takes(now_ms):
            self._not_full |= 1 << seat.index
        else:
            self._not_full &= ~(1 << seat.index)

    def _hold(
        self, seat: Seat, job_id: JobId, attempt_id: AttemptId, terms: SlotAsk | Heir, now_ms: int
    ) -> None:
        batch = isinstance(terms, SlotAsk) and terms.job_class is JobClass.BATCH
        # A slot that came free elsewhere ends the wait for an inheritance: one attempt, one slot.
        self._whereabouts.give_up_waiting(attempt_id)
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
        self._seat_attempt(seat, attempt, now_ms)

    def _seat_attempt(self, seat: Seat, attempt: Attempt, now_ms: int) -> None:
        self.held[attempt.attempt_id] = attempt
        self._whereabouts.held += 1
        self._whereabouts.cells[attempt.attempt_id] = self.number
        seat.held[attempt.attempt_id] = attempt
        if len(seat.held) >= seat.slots:
            self._not_full &= ~(1 << seat.index)
        self._due.watch(attempt.attempt_id, attempt.due_at_ms)

    def _listed(self, attempt: Attempt, now_ms: int) -> None:
        """The node says that it runs the attempt: that is as good as an acknowledgement."""
        if attempt.state is AttemptState.CANCELLING:
            attempt.acked = True
            return
        if attempt.state is AttemptState.DISPATCHED:
            attempt.state = AttemptState.ACCEPTED
        attempt.accept(now_ms)
        self._due.watch(attempt.attempt_id, attempt.due_at_ms)

    def _cancel(self, attempt: Attempt, error: ErrorInfo, grace_ms: int, now_ms: int) -> None:
        attempt.state = AttemptState.CANCELLING
        attempt.error = error
        attempt.due_at_ms = now_ms + grace_ms
        self._due.watch(attempt.attempt_id, attempt.due_at_ms)

    def _give_up(self, attempt: Attempt, freed: _Freeing, now_ms: int) -> None:
        """The node no longer has the attempt: a cancelled one is gone, another one is lost."""
        if attempt.state is AttemptState.CANCELLING:
            self._free(attempt, freed, now_ms)
        else:
            self._end(attempt, LOST_ENDING, now_ms + ENDED_DUE_MS, freed, now_ms)

    def _end(
        self, attempt: Attempt, ending: Ending, due_at_ms: int, freed: _Freeing, now_ms: int
    ) -> None:
        """Outcome stored, slot free: one step."""
        self.ended[attempt.attempt_id] = attempt
        self._free(attempt, freed, now_ms)
        attempt.state = AttemptState.FINISHED
        attempt.outcome, attempt.output, attempt.error = (
            ending.outcome,
            ending.output,
            ending.error,
        )
        attempt.finished_ms = now_ms
        attempt.due_at_ms = due_at_ms
        self._due.watch(attempt.attempt_id, due_at_ms)

    def _free(self, attempt: Attempt, freed: _Freeing, now_ms: int) -> None:
        """Give the slot back once, to the heir if there is one and the seat still takes."""
        del self.held[attempt.attempt_id]
        self._whereabouts.held -= 1
        seat = self.seats[attempt.node_id]
        del seat.held[attempt.attempt_id]
        if attempt.attempt_id not in self.ended:
            self._due.forget(attempt.attempt_id)
            self._whereabouts.leaves(attempt.attempt_id, self.number)
        self._refresh(seat, now_ms)
        heir = attempt.heir
        if heir is not None:
            self._whereabouts.give_up_waiting(heir.attempt_id)
        if not seat.takes(now_ms):
            return
        if heir is None:
            freed.slots += 1
            return
        self._hold(seat, heir.job_id, heir.attempt_id, heir, now_ms)
        freed.inherited.append(a.Inherited(heir.job_id, heir.attempt_id))

    def _leaves_headroom(self, mask: int, headroom: float, now_ms: int) -> bool:
        slots = free = 0
        for index in indexes(mask):
            seat = self._by_index[index]
            if seat is not None:
                slots += seat.slots
                if seat.takes(now_ms):
                    free += seat.slots - len(seat.held)
        return free - 1 >= headroom * slots

    def _victim(self, mask: int, max_preemptions: int, now_ms: int) -> Attempt | None:
        """The youngest batch attempt that may still give way: it loses the least work."""
        found: Attempt | None = None
        for index in indexes(mask):
            seat = self._by_index[index]
            if seat is None or not seat.online or seat.drained or seat.alive_until_ms <= now_ms:
                continue
            if len(seat.held) > seat.slots:
                continue
            for attempt in seat.held.values():
                if (
                    attempt.job_class is JobClass.BATCH
                    and attempt.state in _RUNS
                    and attempt.preemptions < max_preemptions
                    and (found is None or attempt.dispatched_ms > found.dispatched_ms)
                ):
                    found = attempt
        return found
