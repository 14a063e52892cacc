"""Seats and attempts as the memory ledger holds them: mutable, and never handed out."""

from __future__ import annotations

import msgspec

from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.ledger.answers import Preempting
from dragoman.live.ledger.records import AttemptRecord, Owner, SeatRecord, Times
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobResult,
    Outcome,
    RunningJob,
)

MEAN_WEIGHT = 0.2
"""How much the newest service time counts in a node's mean."""


class Heir(msgspec.Struct, frozen=True):
    """A live attempt that gets the slot of a cancelled batch attempt."""

    job_id: JobId
    attempt_id: AttemptId
    ack_ms: int
    lease_ms: int
    run_ms: int


class Attempt(msgspec.Struct, kw_only=True, gc=False):
    """An attempt that holds a slot, or an ended one that its job has not taken yet.

    It is part of no cycle, so the garbage collector need not look at it; the same goes for jobs.
    """

    attempt_id: AttemptId
    cell: int
    job_id: JobId
    node_id: NodeId
    owner: Owner
    job_class: JobClass
    lease_ms: int
    run_ms: int
    due_at_ms: int
    state: AttemptState = AttemptState.DISPATCHED
    acked: bool = False
    ack_number: int = 0
    """Of the node's word that acknowledged it first."""
    asked: bool = False
    run_until_ms: int = 0
    dispatched_ms: int = 0
    accepted_ms: int = 0
    running_ms: int = 0
    finished_ms: int = 0
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    by_node: bool = False
    """It ended because its node said so."""
    preemptions: int = 0
    heir: Heir | None = None

    @property
    def running(self) -> RunningJob:
        return RunningJob(self.job_id, self.attempt_id)

    def preempted_for(self, now_ms: int) -> Preempting:
        return Preempting(self.cell, self.running, self.node_id, self.owner, now_ms)

    def acknowledge(self, number: int) -> None:
        """The node's current connection speaks of it."""
        if not self.acked:
            self.acked, self.ack_number = True, number

    def acked_before(self, number: int) -> bool:
        """Whether a heartbeat of this number must list it, if the node has it."""
        return self.acked and self.ack_number <= number

    def accept(self, number: int, now_ms: int) -> None:
        """The node has it: from now on heartbeats keep the lease and the run time counts."""
        self.acknowledge(number)
        if not self.accepted_ms:
            self.accepted_ms = now_ms
            self.run_until_ms = now_ms + self.run_ms
        self.renew(now_ms)

    def renew(self, now_ms: int) -> None:
        self.due_at_ms = min(now_ms + self.lease_ms, self.run_until_ms)

    def record(self) -> AttemptRecord:
        return AttemptRecord(
            attempt_id=self.attempt_id,
            job_id=self.job_id,
            cell=self.cell,
            node_id=self.node_id,
            owner=self.owner,
            job_class=self.job_class,
            state=self.state,
            acked=self.acked,
            due_at_ms=self.due_at_ms,
            run_until_ms=self.run_until_ms,
            asked=self.asked,
            times=Times(self.dispatched_ms, self.accepted_ms, self.running_ms, self.finished_ms),
            outcome=self.outcome,
            error=self.error,
            output=self.output,
            preemptions=self.preemptions,
        )


class Seat(msgspec.Struct, kw_only=True):
    """A node's place in a cell."""

    node_id: NodeId
    index: int
    slots: int
    owner: Owner
    alive_until_ms: int
    online: bool = True
    drained: bool = False
    mean_ms: float = 0.0
    facts: bytes = b""
    held: dict[AttemptId, Attempt] = msgspec.field(default_factory=dict)

    @property
    def held_count(self) -> int:
        return len(self.held)

    def takes(self, now_ms: int) -> bool:
        """A slot of it may be granted."""
        return (
            self.online
            and not self.drained
            and self.alive_until_ms > now_ms
            and len(self.held) < self.slots
        )

    def measured(self, service_ms: int) -> None:
        """Learn from one finished attempt how long the node takes."""
        if not self.mean_ms:
            self.mean_ms = float(service_ms)
        else:
            self.mean_ms += MEAN_WEIGHT * (service_ms - self.mean_ms)

    def record(self) -> SeatRecord:
        return SeatRecord(
            node_id=self.node_id,
            index=self.index,
            slots=self.slots,
            held=len(self.held),
            owner=self.owner,
            online=self.online,
            drained=self.drained,
            alive_until_ms=self.alive_until_ms,
            mean_ms=self.mean_ms,
            facts=self.facts,
        )


class Whereabouts:
    """Which cell knows an attempt, and which attempts wait for a slot to inherit.

    An ask may name a thousand cells; a repeat of it must be recognised without visiting them.
    """

    def __init__(self) -> None:
        self.cells: dict[AttemptId, int] = {}
        self.held = 0
        """Slots held, over all cells."""
        self.victims: dict[AttemptId, Attempt] = {}
        """The cancelled batch attempt that each waiting attempt is the heir of."""

    def leaves(self, attempt_id: AttemptId, cell: int) -> None:
        """The cell knows the attempt no more; another one may have adopted it."""
        if self.cells.get(attempt_id) == cell:
            del self.cells[attempt_id]

    def give_up_waiting(self, attempt_id: AttemptId) -> None:
        victim = self.victims.pop(attempt_id, None)
        if victim is not None:
            victim.heir = None
