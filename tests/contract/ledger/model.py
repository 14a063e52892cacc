"""What the rules say a ledger holds: a plain model, written without looking at any backend.

It is told what was asked and answered, and says what must be true afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import floor

from dragoman.live.ledger import Ending, Owner
from dragoman.live.protocol import AttemptState, JobClass, Outcome

DISPATCHED = AttemptState.DISPATCHED
ACCEPTED = AttemptState.ACCEPTED
RUNNING = AttemptState.RUNNING
CANCELLING = AttemptState.CANCELLING


@dataclass
class HeldSlot:
    """A slot that an attempt holds."""

    attempt_id: str
    job_id: str
    node: str
    epoch: int
    batch: bool
    preemptions: int
    state: AttemptState = DISPATCHED
    acked: bool = False
    asked: bool = False
    adopted: bool = False
    heir: tuple[str, str] | None = None
    """(attempt_id, job_id) of the live attempt that gets the slot."""


@dataclass
class Seat:
    """A node in a cell."""

    name: str
    cell: int
    index: int
    owner: Owner
    slots: int
    alive_until: float
    online: bool = True
    drained: bool = False
    held: dict[str, HeldSlot] = field(default_factory=dict)

    def takes(self, now: float) -> bool:
        alive = self.online and not self.drained and self.alive_until > now
        return alive and len(self.held) < self.slots


@dataclass(frozen=True)
class End:
    """The end of an attempt, kept by its cell until the job has taken it."""

    cell: int
    outcome: Outcome
    adopted: bool


@dataclass
class Job:
    """A job and the attempts that were ever its own."""

    job_id: str
    request: str
    body: bytes
    job_class: JobClass
    current: str | None = None
    seen: set[str] = field(default_factory=set)
    end: Ending | None = None
    bound_until: float = 0.0


class Model:
    """Seats, held slots, ends not yet taken, and jobs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seats: dict[str, Seat] = {}
        self.drained: set[str] = set()
        self.ended: dict[str, End] = {}
        self.jobs: dict[str, Job] = {}
        self.bindings: dict[str, str] = {}
        self.inherited: list[str] = []
        """Who inherited a slot in the last step."""

    # --- slots -----------------------------------------------------------------------------------

    def slot(self, attempt_id: str) -> HeldSlot | None:
        for seat in self.seats.values():
            if attempt_id in seat.held:
                return seat.held[attempt_id]
        return None

    def hold(self, seat: Seat, attempt_id: str, job_id: str, batch: bool, preemptions: int) -> None:
        self.stop_waiting(attempt_id)
        seat.held[attempt_id] = HeldSlot(
            attempt_id, job_id, seat.name, seat.owner.epoch, batch, preemptions
        )

    def stop_waiting(self, attempt_id: str) -> None:
        """One attempt, one slot: an attempt that holds one waits for no other."""
        victim = self.victim_of(attempt_id)
        if victim is not None:
            victim.heir = None

    def victim_of(self, attempt_id: str) -> HeldSlot | None:
        for seat in self.seats.values():
            for slot in seat.held.values():
                if slot.heir is not None and slot.heir[0] == attempt_id:
                    return slot
        return None

    def free(self, slot: HeldSlot, outcome: Outcome | None = None) -> None:
        """The slot goes back once: to the heir, or to any job."""
        seat = self.seats[slot.node]
        del seat.held[slot.attempt_id]
        if outcome is not None:
            self.ended[slot.attempt_id] = End(seat.cell, outcome, slot.adopted)
        if slot.heir is not None and seat.takes(self.now):
            attempt_id, job_id = slot.heir
            self.hold(seat, attempt_id, job_id, batch=False, preemptions=0)
            self.inherited.append(attempt_id)

    def give_up(self, slot: HeldSlot) -> bool:
        """The node has it no more. True when that is a loss to its job."""
        lost = slot.state is not CANCELLING
        self.free(slot, Outcome.FAILED if lost else None)
        return lost

    def leaves_headroom(self, seats: Iterable[Seat], headroom: float) -> bool:
        seats = list(seats)
        free = sum(seat.slots - len(seat.held) for seat in seats if seat.takes(self.now))
        return free - 1 >= floor(headroom * sum(seat.slots for seat in seats))

    def victims(self, seats: Iterable[Seat], max_preemptions: int) -> set[str]:
        return {
            slot.attempt_id
            for seat in seats
            if seat.online and not seat.drained and seat.alive_until > self.now
            if len(seat.held) <= seat.slots
            for slot in seat.held.values()
            if slot.batch and slot.state is not CANCELLING and slot.preemptions < max_preemptions
        }

    # --- connections -----------------------------------------------------------------------------

    def place(self, seat: Seat, listed: set[str]) -> tuple[set[str], set[str], set[str]]:
        """A new connection: (passed, lost, cancelling)."""
        passed: set[str] = set()
        lost: set[str] = set()
        cancelling: set[str] = set()
        for slot in list(seat.held.values()):
            if slot.attempt_id in listed:
                slot.epoch, slot.acked = seat.owner.epoch, True
                if slot.state is DISPATCHED:
                    slot.state = ACCEPTED
                (cancelling if slot.state is CANCELLING else passed).add(slot.attempt_id)
            elif self.give_up(slot):
                lost.add(slot.attempt_id)
        return passed, lost, cancelling

    def beat(self, seat: Seat, listed: set[str]) -> tuple[set[str], set[str]]:
        """A heartbeat of the current connection: (lost, cancelling)."""
        lost, cancelling = set(), set()
        for slot in list(seat.held.values()):
            if slot.attempt_id in listed:
                slot.acked = True
                if slot.state is DISPATCHED:
                    slot.state = ACCEPTED
                if slot.state is CANCELLING:
                    cancelling.add(slot.attempt_id)
            elif (slot.acked or (slot.state is CANCELLING and slot.asked)) and self.give_up(slot):
                lost.add(slot.attempt_id)
        return lost, cancelling

    def lose(self, seat: Seat) -> set[str]:
        seat.online = False
        return {slot.attempt_id for slot in list(seat.held.values()) if self.give_up(slot)}
