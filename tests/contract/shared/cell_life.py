"""A random but repeatable life of the cells: nodes come and go, attempts hold and leave slots,
instances wait, and old connections and old asks still speak up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.contract.shared.bench import (
    CANCELLED,
    DUE_MS,
    FAILED,
    GRACE_MS,
    HERE,
    LEASE_MS,
    RUN_MS,
    THERE,
    TOMBSTONE_MS,
    Attempt,
    Bench,
    Node,
    as_attempt,
    success,
)
from tests.contract.shared.cell_model import (
    CANCELLING,
    GRACE_SECONDS,
    LOST_DUE_SECONDS,
    CellModel,
    Seat,
    Slot,
)
from tests.contract.shared.life import STRIDE_SECONDS, Life

from dragoman.ids import AttemptId, InstanceId, NodeId
from dragoman.live.ledger import (
    ORDER,
    Adoption,
    Beat,
    CellRecord,
    Cold,
    Done,
    Freed,
    Heartbeat,
    NodeLost,
    Placed,
    Placement,
    SeatRecord,
    Sender,
    Stale,
    StaleReason,
    Strategy,
)
from dragoman.live.protocol import AttemptState, JobClass, Outcome, RunningJob
from dragoman.live.shared import WAITING_MS
from dragoman.live.shared import records as r

NODES = ("n-0", "n-1", "n-2", "n-3", "n-4")
INSTANCES = (HERE, THERE, InstanceId("i-third"))
MAX_PREEMPTIONS = 2
HEADROOM = 0.25
LEASE_SECONDS = LEASE_MS / 1000
TOMBSTONE_SECONDS = TOMBSTONE_MS / 1000
CELL_SIZE = 2
"""Small, so that the nodes live in several cells."""


class CellLife(Life):
    """One life, driven by one seed."""

    def __init__(self, bench: Bench, seed: int) -> None:
        super().__init__(bench, seed)
        self.model = CellModel()
        self.connections: list[Node] = []
        """Every connection there ever was; the old ones still speak up."""
        self.asks: list[r.SlotAsk] = []
        self.attempts: list[Attempt] = []
        """Every attempt that ever held a slot."""
        # Mostly work, with enough trouble in between: a fleet in ruins has little to get wrong.
        self.steps = {
            self.join: 4,
            self.seat_again: 2,
            self.beat: 10,
            self.advance: 3,
            self.disconnect: 1,
            self.lose: 1,
            self.remove: 1,
            self.amend: 1,
            self.drain: 1,
            self.reserve: 20,
            self.preempt: 8,
            self.step: 6,
            self.finish: 14,
            self.cancel: 4,
            self.drop: 3,
            self.look: 3,
            self.settle: 4,
            self.mark_asked: 2,
            self.adopt: 3,
            self.ask_again: 8,
            self.carry_out_late: 8,
        }

    def start(self) -> None:
        self.seen: dict[int, tuple[int, dict[int, SeatRecord]]] = {}
        """What another instance has seen of each cell: its version, and its seats."""
        for name in NODES:
            self.join(name)

    # --- what must be true at all times ---------------------------------------------------------

    def check(self) -> None:
        """Every slot is held by exactly the attempts that the rules say, and none is oversold."""
        ledger = self.bench.ledger
        records = [self.bench(ledger.read_cell(cell)) for cell in range(len(NODES))]
        for cell, record in enumerate(records):
            self.check_changes(cell, record)
        shown = {
            seat.node_id: seat for record in records if record is not None for seat in record.seats
        }
        assert set(shown) == set(self.model.seats)
        for name, seat in self.model.seats.items():
            there = shown[name]
            expected = (seat.slots, len(seat.held), seat.online, seat.drained, seat.owner)
            found = (there.slots, there.held, there.online, there.drained, there.owner)
            assert found == expected, name
        size = self.bench(ledger.size())
        assert size["held"] == sum(len(seat.held) for seat in self.model.seats.values())
        assert size["finished"] == len(self.model.kept)
        assert size["tombstones"] == len(self.model.graves)
        assert size["waiting"] == len(self.model.waiting)

    def check_changes(self, cell: int, record: CellRecord | None) -> None:
        """What another instance makes of the changes that it hears of is the cell as it is."""
        if self.chance(0.5):
            return  # It looks now and then.
        version, seats = self.seen.get(cell, (-1, {}))
        changes = self.bench(self.bench.ledger.read_changes(cell, version))
        assert (changes is None) == (record is None)
        if changes is None or record is None:
            return
        seats = {} if changes.whole else seats
        seats.update({seat.index: seat for seat in changes.seats})
        for index in changes.free:
            seats.pop(index, None)
        self.seen[cell] = (changes.version, seats)
        assert changes.version == record.version
        assert {index: _known(seat) for index, seat in seats.items()} == {
            seat.index: _known(seat) for seat in record.seats
        }

    def check_freed(
        self, freed: Freed | r.FreedSlot, seat: Seat, before: int, woken: tuple[InstanceId, ...]
    ) -> None:
        """What was given back went to its heir, or to any job, and instances were woken."""
        assert freed.slots == self.model.freed
        inherited = [one.attempt_id for one in freed.inherited]
        assert sorted(inherited) == sorted(self.model.inherited)
        for attempt_id in inherited:
            slot = seat.held[attempt_id]
            sender = Sender(seat.node_id, slot.epoch)
            self.attempts.append(Attempt(slot.job_id, attempt_id, seat.cell, seat.node_id, sender))
        self.model.check_woken(seat, before, woken)

    def begin_step(self) -> None:
        self.model.freed = 0
        self.model.inherited.clear()

    # --- choosing -------------------------------------------------------------------------------

    def some_connection(self) -> Node:
        """Mostly a recent one."""
        recent = self.connections[-6:]
        return self.random.choice(recent if self.chance(0.8) else self.connections)

    def seat_of(self, cell: int, sender: Sender) -> Seat | None:
        """The seat, if this connection owns it now."""
        seat = self.model.seats.get(sender.node_id)
        if seat is None or seat.cell != cell or seat.owner.epoch != sender.epoch:
            return None
        return seat

    def some_attempt(self) -> Attempt | None:
        """Mostly one that holds a slot."""
        if not self.attempts:
            return None
        held = [one for one in self.attempts if self.model.slot(one.cell, one.attempt_id)]
        return self.random.choice(held if held and self.chance(0.6) else self.attempts)

    def speaker(self, attempt: Attempt) -> Sender:
        """Mostly the node's newest connection, now and then an older one or another node."""
        if self.chance(0.15):
            return self.some_connection().sender
        seat = self.model.seats.get(attempt.node_id)
        return Sender(attempt.node_id, seat.owner.epoch) if seat else attempt.sender

    def listing(self, node_id: NodeId) -> tuple[RunningJob, ...]:
        """What a node says it runs: most of what it holds, and now and then something else."""
        seat = self.model.seats.get(node_id)
        slots = list(seat.held.values()) if seat else []
        listed = [RunningJob(slot.job_id, slot.attempt_id) for slot in slots if self.chance(0.7)]
        stray = self.some_attempt()
        if stray is not None and self.chance(0.2) and stray.running not in listed:
            listed.append(stray.running)
        return tuple(listed)

    # --- nodes ----------------------------------------------------------------------------------

    def join(self, name: str | None = None) -> None:
        node_id = NodeId(name or self.random.choice(NODES))
        running = self.listing(node_id)
        slots = self.random.choice((0, 1, 1, 2, 2, 3))
        seat = self.model.seats.get(node_id)
        before = seat.free(self.model.now) if seat is not None else 0
        self.begin_step()
        node = self.bench.join(node_id, slots, running)
        self.connections.append(node)
        if seat is None:
            seat = Seat(node_id, node.cell, node.index, node.owner, 0, 0.0)
            self.model.seats[node_id] = seat
        self.check_placed(seat, node.placed, node.owner.epoch, slots, running, before)
        assert seat.owner == node.owner

    def seat_again(self) -> None:
        """A placement of a connection that is the newest, or was."""
        node = self.some_connection()
        slots = self.random.choice((0, 1, 2))
        placement = Placement(node.node_id, node.owner, slots, LEASE_MS, self.listing(node.node_id))
        self.ask(partial(self._seat_again, node, placement))

    def _seat_again(self, node: Node, placement: Placement) -> None:
        seat = self.model.seats.get(node.node_id)
        if seat is None or seat.cell != node.cell:
            return  # The node has left; a placement that comes then seats it again.
        before = seat.free(self.model.now)
        self.begin_step()
        answer = self.bench(self.bench.ledger.seat(node.cell, placement))
        if seat.owner.epoch > node.owner.epoch:
            assert answer == Stale(StaleReason.OLD_ATTEMPT)
            return
        assert isinstance(answer, Placed)
        self.check_placed(
            seat, answer, node.owner.epoch, placement.slots, placement.running, before
        )

    def check_placed(
        self,
        seat: Seat,
        placed: Placed,
        epoch: int,
        slots: int,
        running: tuple[RunningJob, ...],
        before: int,
    ) -> None:
        owner = next(
            node.owner
            for node in reversed(self.connections)
            if (node.node_id, node.owner.epoch) == (seat.node_id, epoch)
        )
        seat.owner, seat.slots, seat.online = owner, slots, True
        seat.alive_until = self.model.now + LEASE_SECONDS
        held = set(seat.held)
        listed = {one.attempt_id for one in running}
        passed, lost, cancelling = self.model.place(seat, set(listed))
        assert {one.attempt_id for one in placed.passed} == passed
        assert {one.attempt_id for one in placed.lost} == lost
        assert {one.attempt_id for one in placed.cancelling} == cancelling
        assert {one.attempt_id for one in placed.unknown} == listed - held
        self.check_freed(placed.freed, seat, before, placed.freed.wake)

    def beat(self) -> None:
        node = self.some_connection()
        heartbeat = Heartbeat(node.node_id, node.owner.epoch, LEASE_MS, self.listing(node.node_id))
        self.ask(partial(self._beat, node.cell, heartbeat))

    def _beat(self, cell: int, heartbeat: Heartbeat) -> None:
        seat = self.seat_of(cell, Sender(heartbeat.node_id, heartbeat.epoch))
        before = seat.free(self.model.now) if seat is not None else 0
        self.begin_step()
        answer = self.bench(self.bench.ledger.beat(cell, heartbeat))
        if seat is None or not seat.online:
            assert not isinstance(answer, Beat)
            return
        assert isinstance(answer, Beat)
        seat.alive_until = self.model.now + LEASE_SECONDS
        held = set(seat.held)
        listed = {one.attempt_id for one in heartbeat.running}
        lost, cancelling = self.model.beat(seat, set(listed))
        assert {one.attempt_id for one in answer.lost} == lost
        assert {one.attempt_id for one in answer.cancelling} == cancelling
        assert {one.attempt_id for one in answer.unknown} == listed - held
        self.check_freed(answer.freed, seat, before, answer.freed.wake)

    def disconnect(self) -> None:
        node = self.some_connection()
        self.ask(partial(self._disconnect, node.cell, node.sender))

    def _disconnect(self, cell: int, sender: Sender) -> None:
        answer = self.bench(self.bench.ledger.disconnect(cell, sender))
        seat = self.seat_of(cell, sender)
        assert (answer == Done()) == (seat is not None)
        if seat is not None:
            seat.online = False

    def lose(self) -> None:
        node = self.some_connection()
        self.ask(partial(self._lose, node.cell, node.sender, self.chance(0.5)))

    def _lose(self, cell: int, sender: Sender, silent: bool) -> None:
        self.begin_step()
        answer = self.bench(self.bench.ledger.lose(cell, sender, only_if_silent=silent))
        seat = self.seat_of(cell, sender)
        if seat is None or (silent and seat.alive_until > self.model.now):
            assert not isinstance(answer, NodeLost)
            return
        assert isinstance(answer, NodeLost)
        assert {one.attempt_id for one in answer.lost} == self.model.lose(seat)

    def remove(self) -> None:
        node = self.some_connection()
        if self.chance(0.4):
            self._remove(node)

    def _remove(self, node: Node) -> None:
        self.begin_step()
        answer = self.bench(self.bench.ledger.remove(node.cell, node.sender))
        seat = self.seat_of(node.cell, node.sender)
        if seat is None:
            assert not isinstance(answer, NodeLost)
            return
        assert isinstance(answer, NodeLost)
        assert {one.attempt_id for one in answer.lost} == self.model.lose(seat)
        del self.model.seats[seat.node_id]
        self.bench(self.bench.ledger.forget(node.node_id, node.owner.epoch))

    def amend(self) -> None:
        node = self.some_connection()
        self.ask(partial(self._amend, node.cell, node.sender, self.random.randint(0, 4)))

    def _amend(self, cell: int, sender: Sender, slots: int) -> None:
        seat = self.seat_of(cell, sender)
        before = seat.free(self.model.now) if seat is not None else 0
        answer = self.bench(self.bench.ledger.amend(cell, sender, slots=slots))
        assert isinstance(answer, Done) == (seat is not None)
        if seat is not None and isinstance(answer, Done):
            seat.slots = slots
            self.model.check_woken(seat, before, answer.wake)

    def drain(self) -> None:
        node = self.some_connection()
        self.ask(partial(self._drain, node.cell, node.node_id, self.chance(0.3)))

    def _drain(self, cell: int, node_id: NodeId, drained: bool) -> None:
        seat = self.model.seats.get(node_id)
        if seat is not None and seat.cell != cell:
            seat = None
        before = seat.free(self.model.now) if seat is not None else 0
        answer = self.bench(self.bench.ledger.set_drained(cell, node_id, drained))
        assert isinstance(answer, Done) == (seat is not None)
        if seat is not None and isinstance(answer, Done):
            seat.drained = drained
            self.model.check_woken(seat, before, answer.wake)

    # --- slots ----------------------------------------------------------------------------------

    def new_ask(self, job_class: JobClass) -> r.SlotAsk:
        seats = [seat for seat in self.model.seats.values() if self.chance(0.8)]
        cell = self.random.choice(seats).cell if seats else 0
        candidates = sum(1 << seat.index for seat in seats if seat.cell == cell)
        ask = self.bench.ask(
            cell=cell,
            candidates=candidates or 1,
            job_class=job_class,
            instance_id=self.random.choice(INSTANCES),
            strategy=self.random.choice(list(Strategy)),
            headroom=HEADROOM,
            preemptions=self.random.randint(0, MAX_PREEMPTIONS),
            max_preemptions=MAX_PREEMPTIONS,
            waits_for="zh-en" if self.chance(0.5) else "",
        )
        self.asks.append(ask)
        return ask

    def reserve(self) -> None:
        job_class = JobClass.BATCH if self.chance(0.5) else JobClass.LIVE
        self.ask(partial(self._reserve, self.new_ask(job_class)))

    def _reserve(self, ask: r.SlotAsk) -> None:
        answer = self.bench(self.bench.ledger.reserve(ask))
        self.check_slot_answer(ask, answer)
        if isinstance(answer, r.Full):
            cold = not self.model.in_cell(ask.cell)
            free = any(seat.free(self.model.now) for seat in self.model.candidates(ask))
            assert answer == r.Full(cold=cold, headroom=free)
            if ask.waits_for and not cold:
                self.model.wait(ask)

    def check_slot_answer(self, ask: r.SlotAsk, answer: object) -> None:
        slot = self.model.slot(ask.cell, ask.attempt_id)
        if slot is not None and slot.state is not CANCELLING:
            assert isinstance(answer, r.Granted)
            assert (answer.node_id, answer.owner.epoch) == (slot.node, slot.epoch)
        elif slot is not None or self.model.is_over(ask.cell, ask.attempt_id):
            assert answer == r.Gone()
        elif isinstance(answer, r.Granted):
            seat = self.model.seats[answer.node_id]
            candidates = self.model.candidates(ask)
            assert seat in candidates
            assert seat.free(self.model.now), "oversold"
            if ask.job_class is JobClass.BATCH:
                assert self.model.leaves_headroom(candidates, HEADROOM)
            self.model.hold(seat, ask)
            self.attempts.append(as_attempt(ask, answer))
        else:
            assert isinstance(answer, r.Full | r.NoVictim | r.Preempting), answer
            assert not self.could_have_granted(ask), "refused although a slot was free"

    def could_have_granted(self, ask: r.SlotAsk) -> bool:
        seats = self.model.candidates(ask)
        return any(seat.free(self.model.now) for seat in seats) and (
            ask.job_class is JobClass.LIVE or self.model.leaves_headroom(seats, HEADROOM)
        )

    def preempt(self) -> None:
        self.ask(partial(self._preempt, self.new_ask(JobClass.LIVE)))

    def _preempt(self, ask: r.SlotAsk) -> None:
        answer = self.bench(self.bench.ledger.preempt(ask))
        self.check_slot_answer(ask, answer)
        if isinstance(answer, r.NoVictim):
            assert not self.model.victims(ask)
        if not isinstance(answer, r.Preempting):
            return
        known = self.model.victim_of(ask.cell, ask.attempt_id)
        if known is not None:
            assert answer.victim.attempt_id == known.attempt_id
            return
        assert answer.victim.attempt_id in self.model.victims(ask)
        victim = self.model.slot(ask.cell, answer.victim.attempt_id)
        assert victim is not None
        victim.state, victim.heir = CANCELLING, ask
        victim.tombstone_seconds = GRACE_SECONDS

    # --- attempts -------------------------------------------------------------------------------

    def step(self) -> None:
        attempt = self.some_attempt()
        if attempt is not None:
            to = AttemptState.RUNNING if self.chance(0.5) else AttemptState.ACCEPTED
            self.ask(partial(self._step, attempt, self.speaker(attempt), to))

    def _step(self, attempt: Attempt, sender: Sender, to: AttemptState) -> None:
        step = r.AttemptStep(attempt.attempt_id, sender.node_id, sender.epoch, to, 0)
        unknown = self.bench(self.bench.ledger.step(attempt.cell, (step,)))
        slot = self.model.spoken_of(attempt.cell, attempt.attempt_id, sender)
        if slot is None:
            assert unknown == (attempt.attempt_id,) or self.ended_by_node(attempt)
            return
        assert unknown == ()
        slot.acked = slot.acked or slot.state is CANCELLING or ORDER[to] > ORDER[slot.state]
        if slot.state is not CANCELLING and ORDER[to] > ORDER[slot.state]:
            slot.state = to

    def ended_by_node(self, attempt: Attempt) -> bool:
        key = attempt.cell, attempt.attempt_id
        kept = self.model.kept.get(key)
        return (kept is not None and kept.by_node) or self.model.graves.get(key, (0, False))[1]

    def finish(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        outcome = Outcome.SUCCESS if self.chance(0.7) else Outcome.FAILED
        result = success(attempt.job_id, attempt.attempt_id).output
        finish = r.Finish(
            outcome,
            result if self.chance(0.5) else None,
            None if outcome is Outcome.SUCCESS else FAILED,
            DUE_MS if self.chance(0.7) else 0,
        )
        self.ask(partial(self._finish, attempt, self.speaker(attempt), finish))

    def _finish(self, attempt: Attempt, sender: Sender, finish: r.Finish) -> None:
        cell, attempt_id = attempt.cell, attempt.attempt_id
        slot = self.model.spoken_of(cell, attempt_id, sender)
        seat = self.model.seats[slot.node] if slot is not None else None
        before = seat.free(self.model.now) if seat is not None else 0
        self.begin_step()
        answer = self.bench(self.bench.ledger.finish(cell, attempt_id, sender, finish))
        if slot is None or seat is None:
            assert isinstance(answer, Stale | Cold)
            return
        if slot.state is CANCELLING:
            assert isinstance(answer, r.LateFinish)
            self.model.give_up(slot)
            freed = answer.freed
        else:
            assert isinstance(answer, r.FreedSlot)
            freed = answer
            due = finish.due_ms / 1000
            if finish.keep is not None:
                self.model.end(slot, finish.outcome, by_node=True, due=due)
            else:
                if due:
                    self.model.bury(cell, attempt_id, due, by_node=True)
                self.model.free(slot)
        assert freed.job_id == slot.job_id
        self.check_freed(freed, seat, before, () if freed.wake is None else (freed.wake,))

    def cancel(self) -> None:
        attempt = self.some_attempt()
        if attempt is not None:
            self.ask(partial(self._cancel, attempt))

    def _cancel(self, attempt: Attempt) -> None:
        answer = self.bench(
            self.bench.ledger.cancel(attempt.cell, attempt.attempt_id, CANCELLED, grace_ms=GRACE_MS)
        )
        slot = self.model.slot(attempt.cell, attempt.attempt_id)
        kept = self.model.kept.get((attempt.cell, attempt.attempt_id))
        if kept is not None:
            assert isinstance(answer, r.AlreadyEnded)
            assert answer.attempt.outcome is kept.outcome
        elif slot is not None:
            assert isinstance(answer, r.CancelWon)
            assert (answer.job_id, answer.node_id) == (slot.job_id, slot.node)
            if slot.state is not CANCELLING:
                slot.state, slot.tombstone_seconds = CANCELLING, GRACE_SECONDS
        else:
            assert isinstance(answer, Stale | Cold)

    def drop(self) -> None:
        """A slot whose node was never told, or an ask that was given up."""
        known: list[Attempt | r.SlotAsk] = [*self.attempts[-8:], *self.asks[-8:]]
        if known:
            one = self.random.choice(known)
            self.ask(partial(self._drop, one.cell, one.attempt_id))

    def _drop(self, cell: int, attempt_id: AttemptId) -> None:
        slot = self.model.slot(cell, attempt_id)
        seat = self.model.seats[slot.node] if slot is not None else None
        before = seat.free(self.model.now) if seat is not None else 0
        self.begin_step()
        answer = self.bench(self.bench.ledger.drop(cell, attempt_id, tombstone_ms=TOMBSTONE_MS))
        if (cell, attempt_id) in self.model.kept:
            assert answer == Stale(StaleReason.OLD_ATTEMPT)
        elif slot is None or seat is None:
            assert answer == Stale(StaleReason.UNKNOWN)
            self.model.bury(cell, attempt_id, TOMBSTONE_SECONDS, by_node=False)
        elif slot.acked or slot.state is not AttemptState.DISPATCHED:
            assert answer == Stale(StaleReason.OLD_ATTEMPT)
        else:
            assert isinstance(answer, r.FreedSlot)
            self.model.bury(cell, attempt_id, TOMBSTONE_SECONDS, by_node=False)
            self.model.free(slot)
            self.check_freed(answer, seat, before, () if answer.wake is None else (answer.wake,))

    def look(self) -> None:
        """The sweep looks at an attempt that a job names, whether or not it was ever granted."""
        known: list[Attempt | r.SlotAsk] = [*self.attempts[-8:], *self.asks[-8:]]
        if known:
            one = self.random.choice(known)
            self.ask(partial(self._look, one.cell, one.attempt_id))

    def _look(self, cell: int, attempt_id: AttemptId) -> None:
        answer = self.bench(self.bench.ledger.look(cell, attempt_id, tombstone_ms=TOMBSTONE_MS))
        slot = self.model.slot(cell, attempt_id)
        kept = self.model.kept.get((cell, attempt_id))
        if kept is not None:
            assert isinstance(answer, r.StoredAttempt)
            assert (answer.state, answer.outcome) == (AttemptState.FINISHED, kept.outcome)
        elif slot is not None:
            assert isinstance(answer, r.StoredAttempt)
            assert (answer.state, answer.owner.epoch) == (slot.state, slot.epoch)
        else:
            assert answer == r.Tombstone()
            self.model.bury(cell, attempt_id, TOMBSTONE_SECONDS, by_node=False)

    def settle(self) -> None:
        attempt = self.some_attempt()
        if attempt is not None:
            self.ask(partial(self._settle, attempt.cell, attempt.attempt_id))

    def _settle(self, cell: int, attempt_id: AttemptId) -> None:
        self.bench(self.bench.ledger.settle(cell, [attempt_id]))
        self.model.settle(cell, attempt_id)

    def mark_asked(self) -> None:
        attempt = self.some_attempt()
        if attempt is not None:
            self.ask(partial(self._mark_asked, attempt.cell, attempt.attempt_id))

    def _mark_asked(self, cell: int, attempt_id: AttemptId) -> None:
        answer = self.bench(self.bench.ledger.mark_asked(cell, attempt_id, grace_ms=GRACE_MS))
        slot = self.model.slot(cell, attempt_id)
        assert (answer == Done()) == (slot is not None and slot.state is CANCELLING)
        if slot is not None and slot.state is CANCELLING:
            slot.asked = True

    def adopt(self) -> None:
        """A node runs an attempt that its cell no longer holds."""
        attempt = self.some_attempt()
        if attempt is not None:
            adoption = Adoption(
                attempt.running,
                self.speaker(attempt),
                JobClass.BATCH if self.chance(0.3) else JobClass.LIVE,
                self.chance(0.5),
                LEASE_MS,
                RUN_MS,
            )
            self.ask(partial(self._adopt, attempt.cell, adoption))

    def _adopt(self, cell: int, adoption: Adoption) -> None:
        attempt_id = adoption.running.attempt_id
        answer = self.bench(self.bench.ledger.adopt(cell, adoption))
        seat = self.seat_of(cell, adoption.sender)
        known = self.model.slot(cell, attempt_id)
        if seat is None:
            assert answer != Done()
        elif known is not None:
            here = known.node == seat.node_id
            assert answer == (Done() if here else Stale(StaleReason.WRONG_NODE))
        elif adoption.wanted and self.model.is_over(cell, attempt_id):
            assert answer == Stale(StaleReason.LATE)
        else:
            assert answer == Done()
            self.model.stop_waiting(cell, attempt_id)
            state = AttemptState.RUNNING if adoption.wanted else CANCELLING
            seat.held[attempt_id] = Slot(
                attempt_id,
                adoption.running.job_id,
                seat.node_id,
                seat.owner.epoch,
                adoption.job_class,
                0,
                state=state,
                acked=True,
                tombstone_seconds=LOST_DUE_SECONDS,
            )

    # --- time -----------------------------------------------------------------------------------

    def advance(self) -> None:
        strides = self.random.randint(1, 2)
        self.bench.advance(strides * STRIDE_SECONDS)
        self.model.now += strides * STRIDE_SECONDS
        self.model.forget()
        due = [
            attempt.attempt_id
            for cell in range(len(NODES))
            for attempt in self.bench(self.bench.ledger.due_attempts(cell, 100))
        ]
        assert len(due) == len(set(due))
        self.check_due(due)

    def check_due(self, due: Sequence[AttemptId]) -> None:
        """Ends that no driver settled are due in time; tombstones never are."""
        settled = {key[1] for key, kept in self.model.kept.items() if kept.due <= self.model.now}
        held = {name for seat in self.model.seats.values() for name in seat.held}
        kept = {key[1] for key in self.model.kept}
        assert settled <= set(due) <= held | kept

    def wind_up(self) -> None:
        """Everything ends; then nothing is left."""
        ledger = self.bench.ledger
        for node in reversed(self.connections):
            self.bench(ledger.remove(node.cell, node.sender))
            self.bench(ledger.forget(node.node_id, node.owner.epoch))
        for attempt in self.attempts:
            self.bench(ledger.settle(attempt.cell, [attempt.attempt_id]))
        self.bench.advance(max(TOMBSTONE_SECONDS, WAITING_MS / 1000))
        left = {kind: count for kind, count in self.bench(ledger.size()).items() if count}
        assert left == {}


def _known(seat: SeatRecord) -> object:
    """What others must know of a seat."""
    return (seat.node_id, seat.slots, seat.owner, seat.online, seat.drained, seat.facts)
