"""What the rules say that cells hold: a plain model, written without looking at any backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor

from tests.contract.shared.bench import GRACE_MS

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.ledger import Owner, Sender
from dragoman.live.protocol import AttemptState, JobClass, Outcome
from dragoman.live.shared import WAITING_MS
from dragoman.live.shared import records as r

CANCELLING = AttemptState.CANCELLING
LOST_DUE_SECONDS = 1.0
GRACE_SECONDS = GRACE_MS / 1000

Key = tuple[int, AttemptId]
"""A cell, and an attempt in it."""


@dataclass
class Slot:
    """A slot that an attempt holds."""

    attempt_id: AttemptId
    job_id: JobId
    node: NodeId
    epoch: int
    job_class: JobClass
    preemptions: int
    state: AttemptState = AttemptState.DISPATCHED
    acked: bool = False
    asked: bool = False
    tombstone_seconds: float = 0.0
    """How long a tombstone stays when the node lets go of it, once it is cancelled."""
    heir: r.SlotAsk | None = None


@dataclass
class Seat:
    """A node in a cell."""

    node_id: NodeId
    cell: int
    index: int
    owner: Owner
    slots: int
    alive_until: float
    online: bool = True
    drained: bool = False
    held: dict[AttemptId, Slot] = field(default_factory=dict)

    def is_open(self, now: float) -> bool:
        return self.online and not self.drained and self.alive_until > now

    def free(self, now: float) -> int:
        return max(0, self.slots - len(self.held)) if self.is_open(now) else 0


@dataclass(frozen=True)
class Kept:
    """An end that its driver has not settled."""

    outcome: Outcome
    by_node: bool
    due: float


@dataclass(frozen=True)
class Waiter:
    """An instance that waits for a slot of some candidates."""

    candidates: int
    since: float
    until: float


class CellModel:
    """Seats, held slots, ends that are kept, tombstones, and who waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seats: dict[NodeId, Seat] = {}
        self.kept: dict[Key, Kept] = {}
        self.graves: dict[Key, tuple[float, bool]] = {}
        """Until when, and whether the node ended the attempt."""
        self.waiting: dict[tuple[int, InstanceId, JobClass], Waiter] = {}
        self.inherited: list[AttemptId] = []
        """Who inherited a slot in the last step."""
        self.freed = 0
        """How many slots any job may take since the last step."""

    def forget(self) -> None:
        """What has run out is gone."""
        self.graves = {key: grave for key, grave in self.graves.items() if grave[0] > self.now}
        self.waiting = {who: note for who, note in self.waiting.items() if note.until > self.now}

    # --- slots ----------------------------------------------------------------------------------

    def in_cell(self, cell: int) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.cell == cell]

    def candidates(self, ask: r.SlotAsk) -> list[Seat]:
        return [seat for seat in self.in_cell(ask.cell) if ask.candidates >> seat.index & 1]

    def slot(self, cell: int, attempt_id: AttemptId) -> Slot | None:
        for seat in self.in_cell(cell):
            if attempt_id in seat.held:
                return seat.held[attempt_id]
        return None

    def is_over(self, cell: int, attempt_id: AttemptId) -> bool:
        return (cell, attempt_id) in self.kept or (cell, attempt_id) in self.graves

    def spoken_of(self, cell: int, attempt_id: AttemptId, sender: Sender) -> Slot | None:
        """The slot, if the sender may speak for it."""
        slot = self.slot(cell, attempt_id)
        if slot is None or (slot.node, slot.epoch) != (sender.node_id, sender.epoch):
            return None
        return slot

    def hold(self, seat: Seat, ask: r.SlotAsk) -> Slot:
        self.stop_waiting(ask.cell, ask.attempt_id)
        slot = seat.held[ask.attempt_id] = Slot(
            ask.attempt_id,
            ask.job_id,
            seat.node_id,
            seat.owner.epoch,
            ask.job_class,
            ask.preemptions,
        )
        return slot

    def victim_of(self, cell: int, attempt_id: AttemptId) -> Slot | None:
        for seat in self.in_cell(cell):
            for slot in seat.held.values():
                if slot.heir is not None and slot.heir.attempt_id == attempt_id:
                    return slot
        return None

    def stop_waiting(self, cell: int, attempt_id: AttemptId) -> None:
        """One attempt, one slot: an attempt that holds one, or is over, inherits none."""
        victim = self.victim_of(cell, attempt_id)
        if victim is not None:
            victim.heir = None

    def bury(self, cell: int, attempt_id: AttemptId, seconds: float, by_node: bool) -> None:
        self.stop_waiting(cell, attempt_id)
        until, ended_by_node = self.graves.get((cell, attempt_id), (0.0, by_node))
        self.graves[cell, attempt_id] = max(until, self.now + seconds), ended_by_node

    def free(self, slot: Slot) -> None:
        """The slot goes back once: to the heir, or to any job."""
        seat = self.seats[slot.node]
        del seat.held[slot.attempt_id]
        if not seat.free(self.now):
            return
        if slot.heir is None:
            self.freed += 1
            return
        self.inherited.append(slot.heir.attempt_id)
        self.hold(seat, slot.heir)

    def end(self, slot: Slot, outcome: Outcome, *, by_node: bool, due: float) -> None:
        """The end is kept for the driver, and the slot is free."""
        key = self.seats[slot.node].cell, slot.attempt_id
        self.kept[key] = Kept(outcome, by_node, self.now + due)
        self.free(slot)

    def give_up(self, slot: Slot) -> bool:
        """The node has it no more. True when that is a loss to its job."""
        if slot.state is CANCELLING:
            cell = self.seats[slot.node].cell
            self.bury(cell, slot.attempt_id, slot.tombstone_seconds, by_node=False)
            self.free(slot)
            return False
        self.end(slot, Outcome.FAILED, by_node=False, due=LOST_DUE_SECONDS)
        return True

    def settle(self, cell: int, attempt_id: AttemptId) -> None:
        kept = self.kept.pop((cell, attempt_id), None)
        if kept is not None and kept.due > self.now:
            self.bury(cell, attempt_id, kept.due - self.now, kept.by_node)

    def leaves_headroom(self, seats: list[Seat], headroom: float) -> bool:
        free = sum(seat.free(self.now) for seat in seats)
        return free - 1 >= floor(headroom * sum(seat.slots for seat in seats))

    def victims(self, ask: r.SlotAsk) -> set[AttemptId]:
        return {
            slot.attempt_id
            for seat in self.candidates(ask)
            if seat.is_open(self.now) and len(seat.held) <= seat.slots
            for slot in seat.held.values()
            if slot.job_class is JobClass.BATCH
            and slot.state is not CANCELLING
            and slot.preemptions < ask.max_preemptions
        }

    # --- waiting --------------------------------------------------------------------------------

    def wait(self, ask: r.SlotAsk) -> None:
        who = ask.cell, ask.instance_id, ask.job_class
        known = self.waiting.get(who)
        since = known.since if known is not None else self.now
        self.waiting[who] = Waiter(ask.candidates, since, self.now + WAITING_MS / 1000)

    def check_woken(self, seat: Seat, before: int, woken: tuple[InstanceId, ...]) -> None:
        """For each slot more, the instance that waits longest, for live work before batch."""
        more = max(0, seat.free(self.now) - before)
        for _ in range(more):
            fit = {
                who: (who[2] is JobClass.BATCH, note.since)
                for who, note in self.waiting.items()
                if who[0] == seat.cell and note.candidates >> seat.index & 1
            }
            if not fit:
                break
            first = min(fit.values())
            longest = {who[1]: who for who, place in fit.items() if place == first}
            assert woken, "an instance that waits was not woken"
            assert woken[0] in longest
            del self.waiting[longest[woken[0]]]
            woken = woken[1:]
        assert woken == ()

    # --- connections ----------------------------------------------------------------------------

    def place(
        self, seat: Seat, listed: set[AttemptId]
    ) -> tuple[set[AttemptId], set[AttemptId], set[AttemptId]]:
        """A new connection: (passed, lost, cancelling)."""
        passed: set[AttemptId] = set()
        lost: set[AttemptId] = set()
        cancelling: set[AttemptId] = set()
        for slot in list(seat.held.values()):
            if slot.epoch == seat.owner.epoch:
                continue
            if slot.attempt_id in listed:
                slot.epoch = seat.owner.epoch
                self._listed(slot)
                (cancelling if slot.state is CANCELLING else passed).add(slot.attempt_id)
            elif self.give_up(slot):
                lost.add(slot.attempt_id)
        return passed, lost, cancelling

    def beat(self, seat: Seat, listed: set[AttemptId]) -> tuple[set[AttemptId], set[AttemptId]]:
        """A heartbeat of the current connection: (lost, cancelling)."""
        lost: set[AttemptId] = set()
        cancelling: set[AttemptId] = set()
        for slot in list(seat.held.values()):
            if slot.attempt_id in listed:
                self._listed(slot)
                if slot.state is CANCELLING:
                    cancelling.add(slot.attempt_id)
            elif (slot.acked or (slot.state is CANCELLING and slot.asked)) and self.give_up(slot):
                lost.add(slot.attempt_id)
        return lost, cancelling

    def lose(self, seat: Seat) -> set[AttemptId]:
        seat.online = False
        return {slot.attempt_id for slot in list(seat.held.values()) if self.give_up(slot)}

    @staticmethod
    def _listed(slot: Slot) -> None:
        slot.acked = True
        if slot.state is AttemptState.DISPATCHED:
            slot.state = AttemptState.ACCEPTED
