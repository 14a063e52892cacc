"""A random but repeatable life of a ledger: several actors, lost answers, old news, expiries.

Each step is made on the ledger and on the model; what the ledger answers and holds must be what
the rules allow. Where chance decides, the model checks that the choice was a lawful one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.contract.ledger.bench import KEEP, LEASE_MS, TOTAL_MS, Attempt, Bench, Node, as_attempt
from tests.contract.ledger.bench import failure as failed_ending
from tests.contract.ledger.bench import success as success_ending
from tests.contract.ledger.model import (
    ACCEPTED,
    CANCELLING,
    DISPATCHED,
    RUNNING,
    HeldSlot,
    Job,
    Model,
    Seat,
)

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.ledger import (
    ORDER,
    Adopted,
    Adoption,
    AlreadyEnded,
    Beat,
    BodyConflict,
    Bound,
    CancelWon,
    Claimed,
    Dropped,
    Ended,
    Ending,
    Existing,
    Finished,
    Full,
    Gone,
    Granted,
    LateFinish,
    Moved,
    NodeLost,
    NotBound,
    NotCurrent,
    NoVictim,
    Preempting,
    Repeat,
    Retrying,
    Sender,
    SlotAsk,
    Stale,
    Strategy,
)
from dragoman.live.protocol import JobClass, Outcome, RunningJob

NODES = ("n-0", "n-1", "n-2", "n-3", "n-4")
REQUESTS = tuple(f"r-{number}" for number in range(8))
MAX_PREEMPTIONS = 2
HEADROOM = 0.25
LEASE_SECONDS = LEASE_MS / 1000
STRIDE_SECONDS = 10.0
"""Time moves in strides much longer than a run takes, so that no lease ends by accident."""


class Schedule:
    """One life, driven by one seed."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = Random(seed)
        self.model = Model()
        self.connections: list[Node] = []
        """Every connection there ever was; the old ones still speak up."""
        self.asks: list[SlotAsk] = []
        """Every ask ever made; an actor may come back to an old one."""
        self.attempts: list[Attempt] = []
        # Mostly work, with enough trouble in between: a fleet in ruins has little to get wrong.
        self.steps: dict[Callable[[], None], int] = {
            self.join: 4,
            self.beat: 8,
            self.advance: 2,
            self.disconnect: 1,
            self.lose: 1,
            self.remove: 1,
            self.amend: 1,
            self.drain: 1,
            self.claim: 6,
            self.reserve: 14,
            self.ask_again: 5,
            self.bind: 6,
            self.ack: 5,
            self.finish: 4,
            self.cancel: 2,
            self.drop: 2,
            self.mark_asked: 2,
            self.adopt: 2,
            self.preempt: 8,
            self.stop_waiting: 1,
            self.settle: 3,
            self.retry: 3,
            self.end: 2,
        }

    def run(self, steps: int) -> None:
        """Live, then wind everything up."""
        for name in NODES:
            self.join(name)
        for step in self.random.choices(list(self.steps), list(self.steps.values()), k=steps):
            self.model.inherited.clear()
            step()
            self.check_seats()
        self.check_attempts()
        self.wind_up()

    # --- what must be true at all times ----------------------------------------------------------

    def check_seats(self) -> None:
        """Every slot is held by exactly the attempts the rules say."""
        shown = {
            seat.node_id: seat
            for cell in sorted({node.cell for node in self.connections})
            if (record := self.bench(self.bench.ledger.read_cell(cell))) is not None
            for seat in record.seats
        }
        assert set(shown) == set(self.model.seats)
        for name, seat in self.model.seats.items():
            there = shown[NodeId(name)]
            expected = (seat.slots, len(seat.held), seat.online, seat.drained, seat.owner)
            found = (there.slots, there.held, there.online, there.drained, there.owner)
            assert found == expected, name

    def check_attempts(self) -> None:
        """Every attempt and every job is in the state the rules say."""
        for attempt in self.attempts:
            slot = self.slot_of(attempt)
            record = self.bench.read(attempt)
            if self.ended_here(attempt):
                assert record is not None
                assert record.outcome is self.model.ended[attempt.attempt_id].outcome
            elif slot is None:
                assert record is None, record
            else:
                assert record is not None
                assert (record.state, record.acked) == (slot.state, slot.acked)
                assert record.owner.epoch == slot.epoch
        for job in self.model.jobs.values():
            self.check_job(job)

    def check_job(self, job: Job) -> None:
        record = self.bench.job(JobId(job.job_id))
        assert record.current == job.current
        assert record.ended == (job.end is not None)
        if job.end is not None:
            assert (record.outcome, record.output) == (job.end.outcome, job.end.output)

    def check_inherited(self, freed: object) -> None:
        inherited = [one.attempt_id for one in getattr(freed, "inherited", ())]
        assert sorted(inherited) == sorted(self.model.inherited)
        for attempt_id in inherited:
            self.remember_heir(attempt_id)

    def remember_heir(self, attempt_id: AttemptId) -> None:
        slot = self.model.slot(attempt_id)
        if slot is not None:
            seat = self.model.seats[slot.node]
            sender = Sender(NodeId(seat.name), seat.owner.epoch)
            job_id = JobId(slot.job_id)
            self.attempts.append(Attempt(job_id, attempt_id, seat.cell, NodeId(seat.name), sender))

    # --- picking ---------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def some_connection(self) -> Node:
        """Mostly a recent one."""
        recent = self.connections[-6:]
        return self.random.choice(recent if self.chance(0.8) else self.connections)

    def seat_of(self, node: Node) -> Seat | None:
        """The seat, if this connection owns it now."""
        seat = self.model.seats.get(node.node_id)
        return seat if seat is not None and seat.owner == node.owner else None

    def some_attempt(self) -> Attempt | None:
        if not self.attempts:
            return None
        recent = self.attempts[-12:]
        return self.random.choice(recent if self.chance(0.8) else self.attempts)

    def some_job(self) -> Job | None:
        jobs = list(self.model.jobs.values())
        return self.random.choice(jobs[-8:]) if jobs else None

    def listing(self, name: str) -> tuple[RunningJob, ...]:
        """What a node says it runs: most of what it holds, and now and then something else."""
        seat = self.model.seats.get(name)
        slots = list(seat.held.values()) if seat else []
        listed = [
            RunningJob(JobId(slot.job_id), AttemptId(slot.attempt_id))
            for slot in slots
            if self.chance(0.7)
        ]
        stray = self.some_attempt()
        if stray is not None and self.chance(0.2) and stray.running not in listed:
            listed.append(stray.running)
        return tuple(listed)

    def twice(self) -> range:
        """An answer may be lost, and then the same is asked again."""
        return range(2 if self.chance(0.25) else 1)

    # --- nodes -----------------------------------------------------------------------------------

    def join(self, name: str | None = None) -> None:
        name = name or self.random.choice(NODES)
        running = self.listing(name)
        node = self.bench.join(name, self.random.choice((0, 1, 1, 2, 3)), running)
        self.connections.append(node)
        placed = node.placed
        slots = self.bench.seat(node).slots
        alive_until = self.model.now + LEASE_SECONDS
        seat = self.model.seats.get(name)
        if seat is None:
            seat = Seat(name, node.cell, node.index, node.owner, slots, alive_until)
            self.model.seats[name] = seat
        seat.owner, seat.slots, seat.alive_until = node.owner, slots, alive_until
        seat.online = True
        held = set(seat.held)
        listed = {one.attempt_id for one in running}
        passed, lost, cancelling = self.model.place(seat, {str(one) for one in listed})
        assert {one.attempt_id for one in placed.passed} == passed
        assert {one.attempt_id for one in placed.lost} == lost
        assert {one.attempt_id for one in placed.cancelling} == cancelling
        assert {one.attempt_id for one in placed.unknown} == listed - held
        self.check_inherited(placed.freed)

    def beat(self) -> None:
        node = self.some_connection()
        running = self.listing(node.node_id)
        listed = {str(one.attempt_id) for one in running}
        for repeat in self.twice():
            answer = self.bench.try_beat(node, *running)
            seat = self.seat_of(node)
            if seat is None or not seat.online:
                assert not isinstance(answer, Beat)
                continue
            assert isinstance(answer, Beat)
            self.model.inherited.clear()
            seat.alive_until = self.model.now + LEASE_SECONDS
            held = set(seat.held)
            lost, cancelling = self.model.beat(seat, listed)
            assert {one.attempt_id for one in answer.lost} == lost
            assert {one.attempt_id for one in answer.cancelling} == cancelling
            assert {one.attempt_id for one in answer.unknown} == listed - held
            assert not (repeat and lost)
            self.check_inherited(answer.freed)

    def disconnect(self) -> None:
        node = self.some_connection()
        for _ in self.twice():
            self.bench(self.bench.ledger.disconnect(node.cell, node.sender))
        seat = self.seat_of(node)
        if seat is not None:
            seat.online = False

    def lose(self) -> None:
        node = self.some_connection()
        silent = self.chance(0.5)
        for repeat in self.twice():
            answer = self.bench(
                self.bench.ledger.lose(node.cell, node.sender, only_if_silent=silent)
            )
            seat = self.seat_of(node)
            if seat is None or (silent and seat.alive_until > self.model.now):
                assert not isinstance(answer, NodeLost)
                continue
            assert isinstance(answer, NodeLost)
            lost = self.model.lose(seat)
            assert {one.attempt_id for one in answer.lost} == lost
            assert not (repeat and lost)

    def remove(self) -> None:
        if self.chance(0.6):
            return
        node = self.some_connection()
        answer = self.bench(self.bench.ledger.remove(node.cell, node.sender))
        seat = self.seat_of(node)
        if seat is None:
            assert not isinstance(answer, NodeLost)
            return
        assert isinstance(answer, NodeLost)
        assert {one.attempt_id for one in answer.lost} == self.model.lose(seat)
        del self.model.seats[seat.name]
        self.bench(self.bench.ledger.forget(node.node_id, node.owner.epoch))

    def amend(self) -> None:
        node = self.some_connection()
        slots = self.random.randint(0, 4)
        for _ in self.twice():
            self.bench(self.bench.ledger.amend(node.cell, node.sender, slots=slots))
        seat = self.seat_of(node)
        if seat is not None:
            seat.slots = slots

    def drain(self) -> None:
        node = self.some_connection()
        drained = self.chance(0.3)
        for _ in self.twice():
            self.bench(self.bench.ledger.set_drained(node.cell, node.node_id, drained))
        seat = self.model.seats.get(node.node_id)
        if seat is not None and seat.cell == node.cell:
            seat.drained = drained

    # --- jobs ------------------------------------------------------------------------------------

    def claim(self) -> None:
        request = self.random.choice(REQUESTS)
        body = b"one" if self.chance(0.9) else b"two"
        job_class = JobClass.BATCH if self.chance(0.4) else JobClass.LIVE
        claim = self.bench.claim(request, body=body, job_class=job_class)
        for _ in self.twice():
            answer = self.bench(self.bench.ledger.claim(claim))
            known = self.model.jobs.get(self.model.bindings.get(request, ""))
            if (
                known is not None
                and known.end is not None
                and (
                    known.end.outcome is not Outcome.SUCCESS or known.bound_until <= self.model.now
                )
            ):
                known = None
            if known is None:
                assert isinstance(answer, Claimed)
                self.model.jobs[answer.job_id] = Job(answer.job_id, request, body, job_class)
                self.model.bindings[request] = answer.job_id
            elif known.body != body:
                assert answer == BodyConflict(JobId(known.job_id))
            else:
                assert isinstance(answer, Existing)
                assert answer.job.job_id == known.job_id

    def bind(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        job = self.model.jobs[attempt.job_id]
        for _ in self.twice():
            answer = self.bench.bind(attempt, TOTAL_MS)
            if job.end is not None:
                assert answer == NotBound(ended=True)
            elif job.current == attempt.attempt_id:
                assert isinstance(answer, Bound)
            elif job.current is not None or attempt.attempt_id in job.seen:
                assert answer == NotBound(ended=False)
            else:
                assert isinstance(answer, Bound)
                job.current = attempt.attempt_id
                job.seen.add(attempt.attempt_id)

    def retry(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        job = self.model.jobs[attempt.job_id]
        for _ in self.twice():
            answer = self.bench.retry(attempt, preempted=self.chance(0.3))
            if job.end is not None:
                assert isinstance(answer, Ended)
            elif job.current == attempt.attempt_id:
                assert isinstance(answer, Retrying)
                job.current = None
            else:
                assert isinstance(answer, NotCurrent)
                job.seen.add(attempt.attempt_id)

    def end(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        job = self.model.jobs[attempt.job_id]
        attempt_id = attempt.attempt_id if self.chance(0.8) else None
        ending = self.some_ending(attempt)
        for _ in self.twice():
            answer = self.bench.end(attempt.job_id, attempt_id, ending)
            if job.end is None and job.current == attempt_id:
                job.end, job.current = ending, None
                job.bound_until = self.model.now + KEEP.lease_ms / 1000
            if job.end is None:
                assert isinstance(answer, NotCurrent)
            else:
                assert isinstance(answer, Ended)
                assert answer.job.outcome is job.end.outcome

    def some_ending(self, attempt: Attempt) -> Ending:
        if self.chance(0.6):
            return success_ending(attempt, str(self.random.random()))
        return failed_ending()

    # --- slots -----------------------------------------------------------------------------------

    def new_ask(self, job: Job) -> SlotAsk | None:
        nodes = [
            Node(NodeId(seat.name), seat.cell, seat.index, seat.owner, self.connections[0].placed)
            for seat in self.model.seats.values()
            if self.chance(0.8)
        ]
        if not nodes:
            return None
        self.random.shuffle(nodes)
        return self.bench.ask(
            JobId(job.job_id),
            *nodes,
            job_class=job.job_class,
            strategy=self.random.choice(list(Strategy)),
            headroom=HEADROOM,
            preemptions=self.random.randint(0, MAX_PREEMPTIONS),
            max_preemptions=MAX_PREEMPTIONS,
        )

    def reserve(self) -> None:
        job = self.some_job()
        ask = self.new_ask(job) if job is not None else None
        if ask is not None:
            self.asks.append(ask)
            for _ in self.twice():
                self.check_reserve(ask)

    def ask_again(self) -> None:
        """An actor that was paused comes back to an ask it made long ago."""
        waiting = self.waiting_asks()
        if waiting and self.chance(0.6):
            self.check_reserve(self.random.choice(waiting))
        elif self.asks:
            self.check_reserve(self.random.choice(self.asks[-10:]))

    def waiting_asks(self) -> list[SlotAsk]:
        """Asks of live attempts that wait for a slot to inherit."""
        return [ask for ask in self.asks if self.model.victim_of(ask.attempt_id) is not None]

    def stop_waiting(self) -> None:
        """An heir gives up, and its answer may be lost."""
        waiting = self.waiting_asks()
        if not waiting:
            return
        ask = self.random.choice(waiting)
        victim = self.model.victim_of(ask.attempt_id)
        assert victim is not None
        cell = self.model.seats[victim.node].cell
        for _ in self.twice():
            answer = self.bench(self.bench.ledger.drop(cell, ask.attempt_id))
            assert isinstance(answer, Dropped)
        self.model.stop_waiting(ask.attempt_id)

    def check_reserve(self, ask: SlotAsk) -> None:
        if self.was_adopted(ask):
            return
        self.check_slot_answer(ask, self.bench(self.bench.ledger.reserve(ask)))

    def was_adopted(self, ask: SlotAsk) -> bool:
        """The attempt was given up and then adopted, wherever its node lives now.

        No caller asks for a slot for it again, and no ledger need search all cells for it.
        """
        slot, end = self.model.slot(ask.attempt_id), self.model.ended.get(ask.attempt_id)
        return (slot is not None and slot.adopted) or (end is not None and end.adopted)

    def candidates(self, ask: SlotAsk) -> list[list[Seat]]:
        """The seats asked for, cell by cell."""
        return [
            [
                seat
                for seat in self.model.seats.values()
                if seat.cell == cell and mask >> seat.index & 1
            ]
            for cell, mask in ask.cells
        ]

    def check_slot_answer(self, ask: SlotAsk, answer: object) -> None:
        slot = self.model.slot(ask.attempt_id)
        if slot is not None or ask.attempt_id in self.model.ended:
            self.check_known_slot(slot, answer)
        elif isinstance(answer, Granted):
            seat = self.model.seats[answer.node_id]
            assert any(seat in seats for seats in self.candidates(ask))
            assert seat.takes(self.model.now), "oversold"
            batch = ask.job_class is JobClass.BATCH
            if batch:
                cell = next(seats for seats in self.candidates(ask) if seat in seats)
                assert self.model.leaves_headroom(cell, HEADROOM)
            self.model.hold(seat, ask.attempt_id, ask.job_id, batch, ask.preemptions)
            self.attempts.append(as_attempt(ask, answer))
        else:
            assert isinstance(answer, Full | NoVictim), answer
            assert not self.could_have_granted(ask), "refused although a slot was free"

    def check_known_slot(self, slot: HeldSlot | None, answer: object) -> None:
        if slot is None or slot.state is CANCELLING:
            assert isinstance(answer, Gone)
        else:
            assert isinstance(answer, Granted)
            assert answer.node_id == slot.node

    def could_have_granted(self, ask: SlotAsk) -> bool:
        for seats in self.candidates(ask):
            if any(seat.takes(self.model.now) for seat in seats) and (
                ask.job_class is JobClass.LIVE or self.model.leaves_headroom(seats, HEADROOM)
            ):
                return True
        return False

    def preempt(self) -> None:
        job = self.some_job()
        if job is None or job.job_class is JobClass.BATCH:
            return
        ask = self.new_ask(job)
        if ask is None:
            return
        self.asks.append(ask)
        for _ in self.twice():
            answer = self.bench(self.bench.ledger.preempt(ask))
            seats = [seat for cell in self.candidates(ask) for seat in cell]
            if not isinstance(answer, Preempting):
                self.check_slot_answer(ask, answer)
                if isinstance(answer, NoVictim):
                    assert not self.model.victims(seats, MAX_PREEMPTIONS)
                continue
            known = self.model.victim_of(ask.attempt_id)
            if known is not None:
                assert answer.victim.attempt_id == known.attempt_id
                continue
            assert not self.could_have_granted(ask)
            assert answer.victim.attempt_id in self.model.victims(seats, MAX_PREEMPTIONS)
            victim = self.model.slot(answer.victim.attempt_id)
            assert victim is not None
            victim.state, victim.heir = CANCELLING, (ask.attempt_id, ask.job_id)

    # --- attempts --------------------------------------------------------------------------------

    def speaker(self, attempt: Attempt) -> Sender:
        """Mostly the node's newest connection, now and then an older one or another node."""
        if self.chance(0.15):
            return self.some_connection().sender
        seat = self.model.seats.get(attempt.node_id)
        return Sender(attempt.node_id, seat.owner.epoch) if seat else attempt.sender

    def slot_of(self, attempt: Attempt) -> HeldSlot | None:
        """The slot, if it is the one this actor knows of: the same attempt may have been dropped
        and granted another one since."""
        slot = self.model.slot(attempt.attempt_id)
        if slot is None or self.model.seats[slot.node].cell != attempt.cell:
            return None
        return slot

    def ended_here(self, attempt: Attempt) -> bool:
        end = self.model.ended.get(attempt.attempt_id)
        return end is not None and end.cell == attempt.cell

    def lawful(self, attempt: Attempt, sender: Sender) -> HeldSlot | None:
        """The slot, if the sender may speak for it."""
        slot = self.slot_of(attempt)
        if slot is None or (slot.node, slot.epoch) != (sender.node_id, sender.epoch):
            return None
        return slot

    def ack(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        sender = self.speaker(attempt)
        to = RUNNING if self.chance(0.5) else ACCEPTED
        for _ in self.twice():
            answer = self.bench(
                self.bench.ledger.transition(attempt.cell, attempt.attempt_id, sender, to)
            )
            slot = self.lawful(attempt, sender)
            if slot is None:
                assert not isinstance(answer, Moved | Repeat)
            elif slot.state is CANCELLING:
                assert isinstance(answer, Stale)
                slot.acked = True
            elif ORDER[to] > ORDER[slot.state]:
                assert isinstance(answer, Moved)
                slot.state, slot.acked = to, True
            else:
                assert isinstance(answer, Repeat)

    def finish(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        sender = self.speaker(attempt)
        ending = self.some_ending(attempt)
        for _ in self.twice():
            self.model.inherited.clear()
            answer = self.bench(
                self.bench.ledger.finish(
                    attempt.cell, attempt.attempt_id, sender, ending, due_ms=1_000
                )
            )
            slot = self.lawful(attempt, sender)
            if slot is None:
                assert not isinstance(answer, Finished | LateFinish)
                continue
            late = slot.state is CANCELLING
            assert isinstance(answer, LateFinish if late else Finished)
            self.model.free(slot, None if late else ending.outcome)
            self.check_inherited(answer.freed)

    def cancel(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        for _ in self.twice():
            answer = self.bench.cancel(attempt)
            slot = self.slot_of(attempt)
            if self.ended_here(attempt):
                assert isinstance(answer, AlreadyEnded)
            elif slot is not None:
                assert isinstance(answer, CancelWon)
                slot.state = CANCELLING
            else:
                assert not isinstance(answer, CancelWon | AlreadyEnded)

    def drop(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        answer = self.bench(self.bench.ledger.drop(attempt.cell, attempt.attempt_id))
        slot = self.slot_of(attempt)
        if slot is None:
            return
        if slot.acked or slot.state is not DISPATCHED:
            assert isinstance(answer, Stale)
        else:
            assert isinstance(answer, Dropped)
            self.model.free(slot)

    def mark_asked(self) -> None:
        attempt = self.some_attempt()
        if attempt is None:
            return
        self.bench(self.bench.ledger.mark_asked(attempt.cell, attempt.attempt_id, grace_ms=5_000))
        slot = self.slot_of(attempt)
        if slot is not None and slot.state is CANCELLING:
            slot.asked = True

    def adopt(self) -> None:
        """A node runs an attempt that its cell no longer holds."""
        attempt = self.some_attempt()
        if attempt is None:
            return
        seat = self.model.seats.get(attempt.node_id)
        if seat is None or seat.cell != attempt.cell:
            return
        job = self.model.jobs[attempt.job_id]
        wanted = job.current == attempt.attempt_id
        sender = Sender(attempt.node_id, seat.owner.epoch)
        adoption = Adoption(attempt.running, sender, job.job_class, wanted, LEASE_MS, 30_000)
        known = self.slot_of(attempt)
        elsewhere = self.model.slot(attempt.attempt_id)
        if elsewhere is not None and elsewhere.node != attempt.node_id:
            return
        given_up = self.ended_here(attempt)
        for _ in self.twice():
            answer = self.bench(self.bench.ledger.adopt(attempt.cell, adoption))
            if known is not None or not (wanted and given_up):
                assert isinstance(answer, Adopted)
            else:
                assert isinstance(answer, Stale)
        if known is None and not (wanted and given_up):
            batch = job.job_class is JobClass.BATCH
            self.model.hold(seat, attempt.attempt_id, attempt.job_id, batch, 0)
            slot = seat.held[attempt.attempt_id]
            slot.acked = slot.adopted = True
            slot.state = RUNNING if wanted else CANCELLING

    def settle(self) -> None:
        attempt = self.some_attempt()
        if attempt is not None:
            for _ in self.twice():
                self.bench(self.bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
            if self.ended_here(attempt):
                del self.model.ended[attempt.attempt_id]

    # --- time ------------------------------------------------------------------------------------

    def advance(self) -> None:
        strides = self.random.randint(1, 2)
        self.bench.advance(strides * STRIDE_SECONDS)
        self.model.now += strides * STRIDE_SECONDS
        self.bench(self.bench.ledger.due_attempts(range(3), 100))
        self.bench(self.bench.ledger.due_jobs(range(256), 100))

    def wind_up(self) -> None:
        """Everything ends; then nothing is left."""
        ledger = self.bench.ledger
        for node in reversed(self.connections):
            self.bench(ledger.remove(node.cell, node.sender))
            self.bench(ledger.forget(node.node_id, node.owner.epoch))
        for attempt in self.attempts:
            self.bench(ledger.settle(attempt.cell, [attempt.attempt_id]))
        for job in self.model.jobs.values():
            current = AttemptId(job.current) if job.current else None
            self.bench.end(JobId(job.job_id), current, failed_ending())
        for _ in range(3):
            self.bench.advance((KEEP.lease_ms + KEEP.retention_ms) / 1000 + 1)
            self.bench(ledger.due_jobs(range(256), 1_000))
        left = {kind: count for kind, count in self.bench(ledger.size()).items() if count}
        assert left == {}
