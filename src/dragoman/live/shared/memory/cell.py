"""One cell in memory: the seats of its nodes, the attempts that hold their slots, tombstones.

Every method is one atomic step: it is told the time and never waits. What has run out by that
time is gone before the step begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from random import Random

from dragoman.ids import AttemptId, InstanceId, NodeId
from dragoman.live.ledger import (
    CHOICES,
    ORDER,
    Adoption,
    Beat,
    CellFull,
    CellRecord,
    Done,
    DueQueue,
    Ending,
    Freed,
    Heartbeat,
    Inherited,
    NodeLost,
    NotSeated,
    Placed,
    Placement,
    Sender,
    Stale,
    StaleReason,
    indexes,
)
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, Outcome, RunningJob
from dragoman.live.shared import records as r
from dragoman.live.shared.interface import PROMISED_MS
from dragoman.live.shared.memory.attempts import CellAttempt, CellSeat, Grave
from dragoman.live.shared.memory.waiting import Waiting

LOST_DUE_MS = 1_000
"""How long an attempt that its node lost waits for the instance that found out."""

PREEMPTED = ErrorInfo(code="PREEMPTED", message="The slot was needed for live work.")
LOST = Ending(
    Outcome.FAILED,
    error=ErrorInfo(code="NODE_UNAVAILABLE", message="The node that carried the attempt is gone."),
)


class MemoryCell:
    """At most a hundred seats; choosing one of them and holding its slot is one step.

    An attempt is held, or finished with its result kept, or over with a tombstone; else the cell
    does not know it. One that a node still runs although no job wants it is held and over.
    """

    def __init__(self, number: int, size: int, version: int, random: Random) -> None:
        self.number = number
        self.version = version
        """Moves when what others must know of a seat does."""
        self._first_version = version
        self._changed: dict[int, int] = {}
        """With which version each seat changed last, by its index."""
        self.seats: dict[NodeId, CellSeat] = {}
        self.held: dict[AttemptId, CellAttempt] = {}
        self.finished: dict[AttemptId, CellAttempt] = {}
        self.graves: dict[AttemptId, Grave] = {}
        self.waiting = Waiting()
        self._by_index: list[CellSeat | None] = [None] * size
        self._victims: dict[AttemptId, CellAttempt] = {}
        """The cancelled batch attempt whose slot each waiting attempt gets."""
        self._random = random
        self._due = DueQueue[AttemptId](self._due_at)
        self._graves_due = DueQueue[AttemptId](self._grave_until)

    @property
    def is_empty(self) -> bool:
        return not (self.seats or self.finished or self.graves or self.waiting)

    def knows(self, attempt_id: AttemptId) -> bool:
        return attempt_id in self.held or attempt_id in self.finished or attempt_id in self.graves

    def expire(self, now_ms: int) -> None:
        """Forget tombstones that have stood long enough, and instances that wait no more."""
        for attempt_id in self._graves_due.due(now_ms, len(self.graves)):
            del self.graves[attempt_id]
            self._graves_due.forget(attempt_id)
        self.waiting.expire(now_ms)

    # --- slots ----------------------------------------------------------------------------------

    def reserve(self, ask: r.SlotAsk, now_ms: int) -> r.Granted | r.Full | r.Gone:
        answer = self._find(ask.attempt_id) or self._grant(ask, now_ms)
        if isinstance(answer, r.Full) and not answer.cold:
            self.waiting.note(ask, now_ms)
        return answer

    def preempt(
        self, ask: r.SlotAsk, now_ms: int
    ) -> r.Preempting | r.Granted | r.NoVictim | r.Gone:
        answer = self._find(ask.attempt_id) or self._grant(ask, now_ms)
        if not isinstance(answer, r.Full):
            return answer
        victim = self._victims.get(ask.attempt_id)
        if victim is None:
            victim = self._victim(ask, now_ms)
            if victim is None:
                return r.NoVictim()
            victim.cancel(PREEMPTED, ask.grace_ms, now_ms)
            victim.heir = ask
            self._victims[ask.attempt_id] = victim
            self._due.watch(victim.attempt_id, victim.due_at_ms)
        return victim.preempted()

    def step(self, step: r.AttemptStep, now_ms: int) -> bool:
        """False when the node should not have the attempt, or not under this connection."""
        attempt = self._spoken_of(step.attempt_id, Sender(step.sender_node, step.epoch))
        if isinstance(attempt, Stale):
            return attempt.reason is StaleReason.DUPLICATE
        if attempt.is_cancelling:
            attempt.acknowledge(step.number)
        elif ORDER[step.to] > ORDER[attempt.state]:
            attempt.state = step.to
            attempt.accept(step.number, now_ms)
            if step.to is AttemptState.RUNNING:
                attempt.running_ms = now_ms
            self._due.watch(attempt.attempt_id, attempt.due_at_ms)
        return True

    def finish(
        self, attempt_id: AttemptId, sender: Sender, finish: r.Finish, now_ms: int
    ) -> r.FreedSlot | r.LateFinish | Stale:
        attempt = self._spoken_of(attempt_id, sender)
        if isinstance(attempt, Stale):
            return attempt
        attempt.finished_ms = now_ms
        if attempt.is_cancelling:
            return r.LateFinish(self._freed(attempt, attempt.grace_ms, now_ms))
        if finish.outcome is Outcome.SUCCESS:
            started_ms = attempt.accepted_ms or attempt.dispatched_ms
            self.seats[attempt.node_id].measured(max(1, now_ms - started_ms))
        attempt.by_node = True
        if finish.keep is None:
            return self._freed(attempt, finish.due_ms, now_ms)
        ending = Ending(finish.outcome, finish.keep, finish.error)
        self._keep_end(attempt, ending, finish.due_ms, now_ms)
        return self._freed(attempt, 0, now_ms)

    def cancel(
        self, attempt_id: AttemptId, error: ErrorInfo, grace_ms: int, now_ms: int
    ) -> r.CancelWon | r.AlreadyEnded | Stale:
        finished = self.finished.get(attempt_id)
        if finished is not None:
            return r.AlreadyEnded(finished.record())
        attempt = self.held.get(attempt_id)
        if attempt is None:
            known = attempt_id in self.graves
            return Stale(StaleReason.LATE if known else StaleReason.UNKNOWN)
        if not attempt.is_cancelling:
            attempt.cancel(error, grace_ms, now_ms)
            self._due.watch(attempt_id, attempt.due_at_ms)
        return r.CancelWon(attempt.job_id, attempt.node_id, attempt.owner, attempt.times)

    def drop(self, attempt_id: AttemptId, tombstone_ms: int, now_ms: int) -> r.FreedSlot | Stale:
        attempt = self.held.get(attempt_id)
        if attempt_id in self.finished:
            return Stale(StaleReason.OLD_ATTEMPT)
        if attempt is None:
            self._bury(attempt_id, now_ms + tombstone_ms, by_node=False)
            return Stale(StaleReason.UNKNOWN)
        if attempt.state is not AttemptState.DISPATCHED:
            return Stale(StaleReason.OLD_ATTEMPT)
        return self._freed(attempt, tombstone_ms, now_ms)

    def look(
        self, attempt_id: AttemptId, tombstone_ms: int, now_ms: int
    ) -> r.StoredAttempt | r.Tombstone:
        attempt = self.finished.get(attempt_id) or self.held.get(attempt_id)
        if attempt is not None:
            return attempt.record()
        if not tombstone_ms:
            return r.Tombstone()
        self._bury(attempt_id, now_ms + tombstone_ms, by_node=False)
        return r.Tombstone()

    def mark_asked(self, attempt_id: AttemptId, grace_ms: int, now_ms: int) -> Done | Stale:
        attempt = self.held.get(attempt_id)
        if attempt is None or not attempt.is_cancelling:
            return Stale(StaleReason.UNKNOWN)
        attempt.asked = True
        attempt.due_at_ms = now_ms + grace_ms
        self._due.watch(attempt_id, attempt.due_at_ms)
        return Done()

    def adopt(self, adoption: Adoption, now_ms: int) -> Done | Stale | NotSeated:
        seat = self._seat_of(adoption.sender)
        if not isinstance(seat, CellSeat):
            return seat
        attempt_id = adoption.running.attempt_id
        known = self.held.get(attempt_id)
        if known is not None:
            here = known.node_id == seat.node_id
            return Done() if here else Stale(StaleReason.WRONG_NODE)
        if adoption.wanted and self.knows(attempt_id):
            return Stale(StaleReason.LATE)
        attempt = CellAttempt(
            attempt_id=attempt_id,
            cell=self.number,
            job_id=adoption.running.job_id,
            node_id=seat.node_id,
            owner=seat.owner,
            job_class=adoption.job_class,
            instance_id=adoption.instance_id or seat.owner.instance_id,
            lease_ms=adoption.lease_ms,
            run_ms=adoption.run_ms,
            due_at_ms=0,
            dispatched_ms=now_ms,
            running_ms=now_ms,
            state=AttemptState.RUNNING if adoption.wanted else AttemptState.CANCELLING,
            grace_ms=LOST_DUE_MS,
        )
        attempt.accept(adoption.number, now_ms)
        self._occupy(seat, attempt)
        return Done()

    def settle(self, attempt_ids: Iterable[AttemptId], now_ms: int) -> None:
        for attempt_id in attempt_ids:
            attempt = self.finished.pop(attempt_id, None)
            if attempt is None:
                continue
            if attempt_id not in self.held:
                self._due.forget(attempt_id)
            if attempt.due_at_ms > now_ms:
                self._bury(attempt_id, attempt.due_at_ms, attempt.by_node)

    def due_attempts(self, limit: int, now_ms: int) -> tuple[r.StoredAttempt, ...]:
        return tuple(
            (self.finished.get(name) or self.held[name]).record()
            for name in self._due.due(now_ms, limit)
        )

    def expected(self, mask: int) -> tuple[int, int, float]:
        """Slots, slots held, and slots that come free per millisecond, over the candidates."""
        slots = held = 0
        rate = 0.0
        for seat in self._candidates(mask):
            slots += seat.slots
            held += len(seat.held)
            if seat.mean_ms:
                rate += len(seat.held) / seat.mean_ms
        return slots, held, rate

    # --- seats ----------------------------------------------------------------------------------

    def take_seat(self, placement: Placement, now_ms: int) -> Placed | CellFull | Stale:
        """Seat the node, and settle every attempt of its older connections."""
        seat = self.seats.get(placement.node_id)
        if seat is None:
            if None not in self._by_index:
                return CellFull()
            index = self._by_index.index(None)
            # Its slots count as new: they are set below.
            seat = CellSeat(node_id=placement.node_id, index=index, slots=0, owner=placement.owner)
            self.seats[seat.node_id] = seat
            self._by_index[index] = seat
        elif placement.owner.epoch < seat.owner.epoch:
            return Stale(StaleReason.OLD_ATTEMPT)
        before = seat.free_slots(now_ms)
        seat.owner, seat.slots, seat.facts = placement.owner, placement.slots, placement.facts
        seat.online = True
        seat.alive_until_ms = now_ms + placement.lease_ms
        self._change(seat)
        listed = {running.attempt_id: running for running in placement.running}
        passed: list[RunningJob] = []
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed: list[Inherited | None] = []
        for attempt in list(seat.held.values()):
            here = listed.pop(attempt.attempt_id, None) is not None
            if attempt.owner.epoch == seat.owner.epoch:
                continue
            if here:
                attempt.owner, attempt.acked = seat.owner, False
                attempt.listed(0, now_ms)
                (cancelling if attempt.is_cancelling else passed).append(attempt.running)
                self._due.watch(attempt.attempt_id, attempt.due_at_ms)
            else:
                if not attempt.is_cancelling:
                    lost.append(attempt.running)
                freed += self._give_up(attempt, now_ms)
        return Placed(
            index=seat.index,
            version=self.version,
            drained=seat.drained,
            passed=tuple(passed),
            lost=tuple(lost),
            cancelling=tuple(cancelling),
            unknown=tuple(listed.values()),
            freed=self._all_freed(freed, seat, before, now_ms),
        )

    def beat(self, heartbeat: Heartbeat, now_ms: int) -> Beat | Stale | NotSeated:
        """Renew the leases of what the node lists, and say where the two lists differ."""
        seat = self._seat_of(Sender(heartbeat.node_id, heartbeat.epoch))
        if not isinstance(seat, CellSeat):
            return seat
        if not seat.online:
            # It was given up while its connection lived: it takes its seat again by being seated.
            return NotSeated(seat.node_id)
        before = seat.free_slots(now_ms)
        seat.alive_until_ms = now_ms + heartbeat.lease_ms
        listed = {running.attempt_id: running for running in heartbeat.running}
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed: list[Inherited | None] = []
        for attempt in list(seat.held.values()):
            if listed.pop(attempt.attempt_id, None) is not None:
                attempt.listed(heartbeat.number, now_ms)
                self._due.watch(attempt.attempt_id, attempt.due_at_ms)
                if attempt.is_cancelling:
                    cancelling.append(attempt.running)
            elif attempt.must_be_listed(heartbeat.number):
                if not attempt.is_cancelling:
                    lost.append(attempt.running)
                freed += self._give_up(attempt, now_ms)
        return Beat(
            tuple(lost),
            tuple(listed.values()),
            tuple(cancelling),
            self._all_freed(freed, seat, before, now_ms),
        )

    def lose(
        self, sender: Sender, only_if_silent: bool, now_ms: int
    ) -> NodeLost | Stale | NotSeated:
        """The node is gone: it is granted nothing, and what it held is ended."""
        seat = self._seat_of(sender)
        if not isinstance(seat, CellSeat):
            return seat
        if only_if_silent and seat.alive_until_ms > now_ms:
            return Stale(StaleReason.OLD_ATTEMPT)
        seat.online = False
        self._change(seat)
        lost = []
        for attempt in list(seat.held.values()):
            if not attempt.is_cancelling:
                lost.append(attempt.running)
            self._give_up(attempt, now_ms)
        return NodeLost(tuple(lost))

    def remove(self, sender: Sender, now_ms: int) -> NodeLost | Stale | NotSeated:
        """Lose the node and give up its seat."""
        gone = self.lose(sender, False, now_ms)
        if isinstance(gone, NodeLost):
            seat = self.seats.pop(sender.node_id)
            self._by_index[seat.index] = None
        return gone

    def amend(
        self, sender: Sender, slots: int | None, facts: bytes | None, now_ms: int
    ) -> Done | Stale | NotSeated:
        """Change a seat's slots or facts. Fewer slots cancel nothing."""
        seat = self._seat_of(sender)
        if not isinstance(seat, CellSeat):
            return seat
        before = seat.free_slots(now_ms)
        seat.slots = seat.slots if slots is None else slots
        seat.facts = seat.facts if facts is None else facts
        self._change(seat)
        return Done(self._woken(seat, before, now_ms))

    def disconnect(self, sender: Sender, now_ms: int) -> Done | Stale | NotSeated:
        """The node's socket is lost: no slot is granted on it, what it holds is kept."""
        seat = self._seat_of(sender)
        if not isinstance(seat, CellSeat):
            return seat
        seat.online = False
        self._change(seat)
        return Done()

    def set_drained(self, node_id: NodeId, drained: bool, now_ms: int) -> Done | NotSeated:
        """An operator's drain or resume: a drained seat is granted no slot."""
        seat = self.seats.get(node_id)
        if seat is None:
            return NotSeated(node_id)
        before = seat.free_slots(now_ms)
        seat.drained = drained
        self._change(seat)
        return Done(self._woken(seat, before, now_ms))

    def record(self) -> CellRecord:
        seats = sorted(self.seats.values(), key=lambda seat: seat.index)
        return CellRecord(self.number, self.version, tuple(seat.record() for seat in seats))

    def changes(self, since: int) -> r.CellChanges:
        """The seats that changed since a version."""
        whole = not self._first_version <= since <= self.version
        changed = sorted(
            index for index, version in self._changed.items() if whole or version > since
        )
        seats = [self._by_index[index] for index in changed]
        return r.CellChanges(
            self.number,
            self.version,
            tuple(seat.record() for seat in seats if seat is not None),
            tuple(index for index in changed if self._by_index[index] is None),
            whole,
        )

    def _change(self, seat: CellSeat) -> None:
        """What others must know of the seat changes."""
        self.version += 1
        self._changed[seat.index] = self.version

    # --- granting -------------------------------------------------------------------------------

    def _find(self, attempt_id: AttemptId) -> r.Granted | r.Gone | None:
        """What an earlier ask with the same attempt_id got here."""
        attempt = self.held.get(attempt_id)
        if attempt is not None and not attempt.is_cancelling:
            seat = self.seats[attempt.node_id]
            return r.Granted(
                self.number, seat.index, seat.node_id, attempt.owner, attempt.dispatched_ms
            )
        return r.Gone() if self.knows(attempt_id) else None

    def _grant(self, ask: r.SlotAsk, now_ms: int) -> r.Granted | r.Full:
        if not self.seats:
            return r.Full(cold=True)
        candidates = self._candidates(ask.candidates)
        free = [seat for seat in candidates if seat.free_slots(now_ms)]
        if not free:
            return r.Full()
        if ask.job_class is JobClass.BATCH:
            slots = sum(seat.slots for seat in candidates)
            spare = sum(seat.free_slots(now_ms) for seat in free) - 1
            if spare < floor(ask.headroom * slots):
                return r.Full(headroom=True)
        mask = sum(seat.bit for seat in free)
        near = ask.near & ask.candidates
        if near != ask.candidates:
            promised = sum(seat.bit for seat in free if seat.promised_until_ms > now_ms) & near
            mask = mask & near & ~promised or mask & ~promised or mask
        index = CHOICES[ask.strategy](mask, self._by_index, self._random)
        seat = self._by_index[index]
        assert seat is not None, "a choice is made among the seats that were named"
        self._hold(seat, ask, now_ms)
        return r.Granted(self.number, index, seat.node_id, seat.owner, now_ms)

    def _victim(self, ask: r.SlotAsk, now_ms: int) -> CellAttempt | None:
        """The youngest batch attempt that may still give way: it loses the least work."""
        able = [
            attempt
            for seat in self._candidates(ask.candidates)
            if seat.is_open(now_ms) and len(seat.held) <= seat.slots
            for attempt in seat.held.values()
            if attempt.job_class is JobClass.BATCH
            and not attempt.is_cancelling
            and attempt.preemptions < ask.max_preemptions
        ]
        return max(able, key=lambda attempt: attempt.dispatched_ms, default=None)

    def _hold(self, seat: CellSeat, ask: r.SlotAsk, now_ms: int) -> None:
        """Grant a slot of the seat to a new attempt."""
        attempt = CellAttempt(
            attempt_id=ask.attempt_id,
            cell=self.number,
            job_id=ask.job_id,
            node_id=seat.node_id,
            owner=seat.owner,
            job_class=ask.job_class,
            instance_id=ask.instance_id,
            lease_ms=ask.lease_ms,
            run_ms=ask.run_ms,
            due_at_ms=now_ms + ask.ack_ms,
            dispatched_ms=now_ms,
            preemptions=ask.preemptions,
        )
        self._occupy(seat, attempt)

    def _occupy(self, seat: CellSeat, attempt: CellAttempt) -> None:
        """The attempt has a slot of the seat from now on; one attempt, one slot."""
        self._stop_waiting(attempt.attempt_id)
        self.held[attempt.attempt_id] = attempt
        seat.held[attempt.attempt_id] = attempt
        self._due.watch(attempt.attempt_id, attempt.due_at_ms)

    # --- giving back ----------------------------------------------------------------------------

    def _freed(self, attempt: CellAttempt, tombstone_ms: int, now_ms: int) -> r.FreedSlot:
        """Give back the slot of one attempt, which leaves a tombstone for so long."""
        seat = self.seats[attempt.node_id]
        before = seat.free_slots(now_ms)
        passed = self._free(attempt, tombstone_ms, now_ms)
        woken = self._woken(seat, before, now_ms)
        return r.FreedSlot(
            job_id=attempt.job_id,
            times=attempt.times,
            slots=passed.count(None),
            inherited=tuple(heir for heir in passed if heir is not None),
            wake=woken[0] if woken else None,
        )

    def _all_freed(
        self, passed: list[Inherited | None], seat: CellSeat, before: int, now_ms: int
    ) -> Freed:
        return Freed(
            passed.count(None),
            tuple(heir for heir in passed if heir is not None),
            self._woken(seat, before, now_ms),
        )

    def _give_up(self, attempt: CellAttempt, now_ms: int) -> list[Inherited | None]:
        """The node no longer has the attempt: a cancelled one is gone, another one is lost."""
        if attempt.is_cancelling:
            return self._free(attempt, attempt.grace_ms, now_ms)
        self._keep_end(attempt, LOST, LOST_DUE_MS, now_ms)
        return self._free(attempt, 0, now_ms)

    def _keep_end(self, attempt: CellAttempt, ending: Ending, due_ms: int, now_ms: int) -> None:
        """Keep how the attempt ended until its driver has settled it."""
        attempt.state = AttemptState.FINISHED
        attempt.outcome, attempt.output, attempt.error = (
            ending.outcome,
            ending.output,
            ending.error,
        )
        attempt.finished_ms = now_ms
        attempt.due_at_ms = now_ms + due_ms
        self.finished[attempt.attempt_id] = attempt
        self._due.watch(attempt.attempt_id, attempt.due_at_ms)

    def _free(self, attempt: CellAttempt, tombstone_ms: int, now_ms: int) -> list[Inherited | None]:
        """Give the slot back once: to the heir, or to any job (None), if the seat grants it."""
        attempt_id = attempt.attempt_id
        seat = self.seats[attempt.node_id]
        del self.held[attempt_id]
        del seat.held[attempt_id]
        if attempt_id not in self.finished:
            self._due.forget(attempt_id)
        if tombstone_ms:
            self._bury(attempt_id, now_ms + tombstone_ms, attempt.by_node)
        heir = attempt.heir
        if heir is not None:
            self._stop_waiting(heir.attempt_id)
        if not seat.free_slots(now_ms):
            return []
        if heir is None:
            return [None]
        self._hold(seat, heir, now_ms)
        return [Inherited(heir.job_id, heir.attempt_id)]

    def _woken(self, seat: CellSeat, before: int, now_ms: int) -> tuple[InstanceId, ...]:
        """Wake an instance for each slot that may be granted now and could not be before."""
        more = seat.free_slots(now_ms) - before
        woken = [self.waiting.wake(seat.index, now_ms) for _ in range(more)]
        found = tuple(instance_id for instance_id in woken if instance_id is not None)
        if found:
            seat.promised_until_ms = now_ms + PROMISED_MS
        return found

    def _bury(self, attempt_id: AttemptId, until_ms: int, by_node: bool) -> None:
        """No slot is held for the attempt until then, nor inherited."""
        self._stop_waiting(attempt_id)
        grave = self.graves.get(attempt_id)
        if grave is None:
            grave = self.graves[attempt_id] = Grave(until_ms, by_node)
        grave.until_ms = max(grave.until_ms, until_ms)
        self._graves_due.watch(attempt_id, grave.until_ms)

    def _stop_waiting(self, attempt_id: AttemptId) -> None:
        victim = self._victims.pop(attempt_id, None)
        if victim is not None:
            victim.heir = None

    # --- looking up -----------------------------------------------------------------------------

    def _candidates(self, mask: int) -> list[CellSeat]:
        return [
            seat
            for index in indexes(mask)
            if index < len(self._by_index) and (seat := self._by_index[index]) is not None
        ]

    def _seat_of(self, sender: Sender) -> CellSeat | Stale | NotSeated:
        """The seat that the sender may speak for."""
        seat = self.seats.get(sender.node_id)
        if seat is None or sender.epoch > seat.owner.epoch:
            return NotSeated(sender.node_id)
        if sender.epoch < seat.owner.epoch:
            return Stale(StaleReason.OLD_ATTEMPT)
        return seat

    def _spoken_of(self, attempt_id: AttemptId, sender: Sender) -> CellAttempt | Stale:
        """The attempt that holds a slot, if the sender may speak for it."""
        attempt = self.held.get(attempt_id) or self.finished.get(attempt_id)
        if attempt is None:
            grave = self.graves.get(attempt_id)
            if grave is None:
                return Stale(StaleReason.UNKNOWN)
            return Stale(StaleReason.DUPLICATE if grave.by_node else StaleReason.LATE)
        if attempt.node_id != sender.node_id:
            return Stale(StaleReason.WRONG_NODE)
        if attempt.owner.epoch != sender.epoch:
            return Stale(StaleReason.OLD_ATTEMPT)
        if attempt.state is AttemptState.FINISHED:
            return Stale(StaleReason.DUPLICATE if attempt.by_node else StaleReason.LATE)
        return attempt

    def _grave_until(self, attempt_id: AttemptId) -> int:
        return self.graves[attempt_id].until_ms

    def _due_at(self, attempt_id: AttemptId) -> int | None:
        known = (self.finished.get(attempt_id), self.held.get(attempt_id))
        return min((attempt.due_at_ms for attempt in known if attempt is not None), default=None)
