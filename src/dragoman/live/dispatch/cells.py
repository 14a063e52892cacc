"""The slots of the fleet in memory: seats in cells, and the steps in which slots change hands.

Every method is one atomic step: it is told the time and never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import floor
from random import Random

import msgspec

from dragoman.ids import AttemptId, NodeId
from dragoman.live.dispatch.job import (
    ACCEPTED,
    BATCH,
    DISPATCHED,
    Job,
    Leaving,
    Mask,
    Seat,
    times_of,
)
from dragoman.live.ledger import (
    CHOICES,
    Beat,
    CellFull,
    CellRecord,
    Done,
    Freed,
    Heartbeat,
    Inherited,
    NodeLost,
    NotSeated,
    Outlook,
    Placed,
    Placement,
    SeatRecord,
    Sender,
    Stale,
    StaleReason,
    Strategy,
    draw,
    indexes,
)
from dragoman.live.protocol import ErrorInfo, RunningJob

MEAN_WEIGHT = 0.2
"""How much the newest service time counts in a node's mean."""

NOTHING = Freed()
ONE_SLOT = Freed(slots=1)

_RANDOM = Strategy.RANDOM


class SlotRules(msgspec.Struct, frozen=True):
    """How slots are granted; from the settings."""

    strategy: Strategy
    batch_headroom: float
    """The share of the candidates' slots that batch work must leave free."""
    batch_max_preemptions: int
    """Batch jobs that gave way this often are left alone."""
    grace_ms: int
    """How long a node has to answer a cancel."""


class Freeing:
    """Collects what a step gives back."""

    def __init__(self) -> None:
        self.slots = 0
        self.inherited: list[Inherited] = []

    def answer(self) -> Freed:
        if not self.inherited:
            return Freed(self.slots) if self.slots else NOTHING
        return Freed(self.slots, tuple(self.inherited))


class Cell:
    """At most a hundred seats; choosing one of them and holding its slot is one step."""

    def __init__(self, cells: FleetCells, number: int, size: int, version: int) -> None:
        self.number = number
        self.version = version
        """Moves when what others must know of a seat does."""
        self.seats: dict[NodeId, Seat] = {}
        self.by_index: list[Seat | None] = [None] * size
        self.not_full = 0
        """The bits of the seats that may have a free slot."""
        self._cells = cells

    # --- slots ----------------------------------------------------------------------------------

    def reserve(self, job: Job, mask: int, now_ms: int) -> Seat | None:
        """Hold a slot of a candidate for the job's attempt; None when none is free."""
        free = mask & self.not_full
        rules = self._cells.rules
        if rules.strategy is _RANDOM:
            random = self._cells.random
            while free:
                # Mostly the first draw is a candidate.
                index = int(random.random() * free.bit_length())
                if not free >> index & 1:
                    index = draw(free, random)
                seat = self.by_index[index]
                if seat is not None and seat.alive_until_ms > now_ms:
                    self.hold(seat, job, now_ms)
                    return seat
                free &= ~(1 << index)
                self.not_full &= ~(1 << index)
            return None
        choose = CHOICES[rules.strategy]
        while free:
            index = choose(free, self.by_index, self._cells.random)
            seat = self.by_index[index]
            if seat is not None and seat.alive_until_ms > now_ms:
                self.hold(seat, job, now_ms)
                return seat
            free &= ~(1 << index)
            self.not_full &= ~(1 << index)
        return None

    def hold(self, seat: Seat, job: Job, now_ms: int) -> None:
        """Grant a slot of the seat to the job's new attempt."""
        held = seat.held
        held[job.attempt_id] = job
        if len(held) >= seat.slots:
            self.not_full &= ~seat.bit
        self._cells.held += 1
        job.seat = seat
        job.epoch = seat.owner.epoch
        job.step = DISPATCHED
        job.dispatched_ms = now_ms
        if job.past is not None:
            job.acked = False
            job.accepted_ms = job.running_ms = job.finished_ms = 0
        job.used += 1

    def free(self, seat: Seat, attempt_id: AttemptId, now_ms: int) -> bool:
        """Give an attempt's slot back; False when the seat grants no slot now."""
        held = seat.held
        del held[attempt_id]
        self._cells.held -= 1
        if (
            seat.online
            and not seat.drained
            and seat.alive_until_ms > now_ms
            and len(held) < seat.slots
        ):
            self.not_full |= seat.bit
            return True
        self.not_full &= ~seat.bit
        return False

    def free_leaving(self, left: Leaving, freed: Freeing, now_ms: int) -> None:
        """The node has let go of a cancelled attempt: its slot passes to the heir, if any."""
        takes = self.free(left.seat, left.attempt_id, now_ms)
        heir, left.heir = left.heir, None
        if heir is not None:
            self._cells.heirs.pop(heir.attempt_id, None)
        if not takes:
            return
        if heir is None or heir.is_out or heir.ended:
            freed.slots += 1
            return
        self.hold(left.seat, heir, now_ms)
        freed.inherited.append(Inherited(heir.job_id, heir.attempt_id))

    def has_headroom(self, mask: int, now_ms: int) -> bool:
        """Whether a batch attempt more would leave live work its share of the candidates' slots."""
        slots = free = 0
        for index in indexes(mask):
            seat = self.by_index[index]
            if seat is not None:
                slots += seat.slots
                if seat.takes(now_ms):
                    free += seat.slots - len(seat.held)
        return free - 1 >= floor(self._cells.rules.batch_headroom * slots)

    def victim(self, mask: int, now_ms: int) -> Job | None:
        """The youngest batch attempt that may still give way: it loses the least work."""
        found: Job | None = None
        most = self._cells.rules.batch_max_preemptions
        for index in indexes(mask):
            seat = self.by_index[index]
            if seat is None or not seat.online or seat.drained or seat.alive_until_ms <= now_ms:
                continue
            if len(seat.held) > seat.slots:
                continue
            for held in seat.held.values():
                if (
                    isinstance(held, Job)
                    and held.spec.job_class is BATCH
                    and not held.in_flight
                    and held.preemptions < most
                    and (found is None or held.dispatched_ms > found.dispatched_ms)
                ):
                    found = held
        return found

    # --- seats ----------------------------------------------------------------------------------

    def take_seat(self, placement: Placement, now_ms: int) -> Placed | CellFull | Stale:
        """Seat the node, and settle every attempt of its older connections."""
        seat = self.seats.get(placement.node_id)
        if seat is None:
            if None not in self.by_index:
                return CellFull()
            index = self.by_index.index(None)
            seat = Seat(placement.node_id, self.number, index, placement.owner, placement.slots)
            self.seats[seat.node_id] = seat
            self.by_index[index] = seat
        elif placement.owner.epoch < seat.owner.epoch:
            return Stale(StaleReason.OLD_ATTEMPT)
        seat.owner, seat.slots, seat.facts = placement.owner, placement.slots, placement.facts
        seat.online = True
        seat.alive_until_ms = now_ms + placement.lease_ms
        self.version += 1
        listed = {running.attempt_id: running for running in placement.running}
        passed: list[RunningJob] = []
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed = Freeing()
        for attempt_id, held in list(seat.held.items()):
            here = listed.pop(attempt_id, None) is not None
            if held.epoch == seat.owner.epoch:
                continue
            running = RunningJob(held.job_id, attempt_id)
            if here:
                held.epoch = seat.owner.epoch
                (cancelling if isinstance(held, Leaving) else passed).append(running)
                acknowledge(held, now_ms)
            else:
                if not isinstance(held, Leaving):
                    lost.append(running)
                self._lose(seat, held, freed, now_ms)
        self.refresh(seat, now_ms)
        return Placed(
            index=seat.index,
            version=self.version,
            drained=seat.drained,
            passed=tuple(passed),
            lost=tuple(lost),
            cancelling=tuple(cancelling),
            unknown=tuple(listed.values()),
            freed=freed.answer(),
        )

    def beat(self, heartbeat: Heartbeat, now_ms: int) -> Beat | Stale | NotSeated:
        """Renew the seat, and say where the node's list differs from what it holds."""
        seat = self.seat_of(Sender(heartbeat.node_id, heartbeat.epoch))
        if not isinstance(seat, Seat):
            return seat
        if not seat.online:
            # It was given up while its connection lived: it takes its seat again by being seated.
            return NotSeated(seat.node_id)
        seat.alive_until_ms = now_ms + heartbeat.lease_ms
        self.refresh(seat, now_ms)
        if not seat.held and not heartbeat.running:
            return Beat()
        listed = {running.attempt_id: running for running in heartbeat.running}
        lost: list[RunningJob] = []
        cancelling: list[RunningJob] = []
        freed = Freeing()
        for attempt_id, held in list(seat.held.items()):
            running = RunningJob(held.job_id, attempt_id)
            if listed.pop(attempt_id, None) is not None:
                acknowledge(held, now_ms)
                if isinstance(held, Leaving):
                    cancelling.append(running)
            elif isinstance(held, Leaving):
                if held.acked or held.asked:
                    self.free_leaving(held, freed, now_ms)
            elif held.acked and not held.in_flight:
                lost.append(running)
                self._lose(seat, held, freed, now_ms)
        return Beat(tuple(lost), tuple(listed.values()), tuple(cancelling), freed.answer())

    def lose(
        self, sender: Sender, only_if_silent: bool, now_ms: int
    ) -> NodeLost | Stale | NotSeated:
        """The node is gone: it is granted nothing, and what it held is given back."""
        seat = self.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        if only_if_silent and seat.alive_until_ms > now_ms:
            return Stale(StaleReason.OLD_ATTEMPT)
        seat.online = False
        self.version += 1
        self.refresh(seat, now_ms)
        freed = Freeing()
        lost = []
        for attempt_id, held in list(seat.held.items()):
            if not isinstance(held, Leaving):
                lost.append(RunningJob(held.job_id, attempt_id))
            self._lose(seat, held, freed, now_ms)
        return NodeLost(tuple(lost), freed.answer())

    def remove(self, sender: Sender, now_ms: int) -> NodeLost | Stale | NotSeated:
        """Lose the node and give up its seat."""
        gone = self.lose(sender, False, now_ms)
        if isinstance(gone, NodeLost):
            seat = self.seats.pop(sender.node_id)
            self.by_index[seat.index] = None
            self.not_full &= ~seat.bit
        return gone

    def amend(
        self, sender: Sender, slots: int | None, facts: bytes | None, now_ms: int
    ) -> Done | Stale | NotSeated:
        """Change a seat's slots or facts. Fewer slots cancel nothing."""
        seat = self.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        seat.slots = seat.slots if slots is None else slots
        seat.facts = seat.facts if facts is None else facts
        return self._changed(seat, now_ms)

    def disconnect(self, sender: Sender, now_ms: int) -> Done | Stale | NotSeated:
        """The node's socket is lost: no slot is granted on it, what it holds is kept."""
        seat = self.seat_of(sender)
        if not isinstance(seat, Seat):
            return seat
        seat.online = False
        return self._changed(seat, now_ms)

    def set_drained(self, node_id: NodeId, drained: bool, now_ms: int) -> Done | NotSeated:
        """An operator's drain or resume: a drained seat is granted no slot."""
        seat = self.seats.get(node_id)
        if seat is None:
            return NotSeated(node_id)
        seat.drained = drained
        return self._changed(seat, now_ms)

    def seat_of(self, sender: Sender) -> Seat | Stale | NotSeated:
        """The seat that the sender may speak for."""
        seat = self.seats.get(sender.node_id)
        if seat is None or sender.epoch > seat.owner.epoch:
            return NotSeated(sender.node_id)
        if sender.epoch < seat.owner.epoch:
            return Stale(StaleReason.OLD_ATTEMPT)
        return seat

    def refresh(self, seat: Seat, now_ms: int) -> None:
        """Keep the mask of seats that are not full true."""
        if seat.takes(now_ms):
            self.not_full |= seat.bit
        else:
            self.not_full &= ~seat.bit

    def record(self) -> CellRecord:
        seats = sorted(self.seats.values(), key=lambda seat: seat.index)
        return CellRecord(self.number, self.version, tuple(map(seat_record, seats)))

    def _changed(self, seat: Seat, now_ms: int) -> Done:
        self.version += 1
        self.refresh(seat, now_ms)
        return Done()

    def _lose(self, seat: Seat, held: Job | Leaving, freed: Freeing, now_ms: int) -> None:
        """The node no longer has the attempt. Its job is told by the one that asked."""
        if isinstance(held, Leaving):
            self.free_leaving(held, freed, now_ms)
        elif self.free(seat, held.attempt_id, now_ms):
            freed.slots += 1


class FleetCells:
    """Every cell of the fleet."""

    def __init__(self, rules: SlotRules, cell_size: int, random: Random) -> None:
        self.rules = rules
        self.random = random
        self.held = 0
        """Slots held, over all cells."""
        self.heirs: dict[AttemptId, Leaving] = {}
        """The cancelled batch attempt whose slot each waiting attempt gets."""
        self.leaving: deque[Leaving] = deque()
        """Cancelled attempts by the time their node's silence is looked into."""
        self._size = cell_size
        self.by_number: dict[int, Cell] = {}
        self._retired_version = 0
        """No cell that was given up had a higher version; one made anew goes on from here."""

    def get(self, number: int) -> Cell | None:
        return self.by_number.get(number)

    def make(self, number: int) -> Cell:
        """The cell, made when it is not there."""
        cell = self.by_number.get(number)
        if cell is None:
            cell = self.by_number[number] = Cell(self, number, self._size, self._retired_version)
        return cell

    def discard_if_empty(self, cell: Cell) -> None:
        if not cell.seats:
            self._retired_version = max(self._retired_version, cell.version)
            del self.by_number[cell.number]

    def all(self) -> Iterable[Cell]:
        return self.by_number.values()

    def cancel(self, job: Job, error: ErrorInfo, now_ms: int) -> Leaving | None:
        """Take the job's attempt from its node; None when the slot is free already."""
        seat = job.seat
        if seat is None or seat.held.get(job.attempt_id) is not job:
            return None
        left = Leaving(
            job.attempt_id,
            job.job_id,
            seat,
            job.epoch,
            job.spec.job_class,
            error,
            now_ms + self.rules.grace_ms,
            job.acked,
            times_of(job),
        )
        seat.held[job.attempt_id] = left
        self.leaving.append(left)
        return left

    def outlook(self, cells: Iterable[Mask]) -> Outlook:
        """When a slot of these candidates can be expected, from what they did lately."""
        slots = held = 0
        rate = 0.0
        for number, mask in cells:
            cell = self.by_number.get(number)
            for index in indexes(mask) if cell is not None else ():
                seat = cell.by_index[index] if cell is not None else None
                if seat is not None:
                    slots += seat.slots
                    held += len(seat.held)
                    if seat.mean_ms:
                        rate += len(seat.held) / seat.mean_ms
        return Outlook(slots, held, int(1 / rate) if rate else None)


def acknowledge(held: Job | Leaving, now_ms: int) -> None:
    """The node has the attempt: a heartbeat that lists it is as good as an acknowledgement."""
    held.acked = True
    if isinstance(held, Job) and held.step is DISPATCHED:
        held.step = ACCEPTED
        held.accepted_ms = now_ms


def seat_record(seat: Seat) -> SeatRecord:
    return SeatRecord(
        node_id=seat.node_id,
        index=seat.index,
        slots=seat.slots,
        held=len(seat.held),
        owner=seat.owner,
        online=seat.online,
        drained=seat.drained,
        alive_until_ms=seat.alive_until_ms,
        mean_ms=seat.mean_ms,
        facts=seat.facts,
    )
