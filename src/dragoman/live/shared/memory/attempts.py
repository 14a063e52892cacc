"""Seats and attempts as a cell in memory holds them: mutable, and never handed out."""

from __future__ import annotations

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.ledger import Owner, SeatRecord, Times
from dragoman.live.protocol import (
    AttemptState,
    ErrorInfo,
    JobClass,
    JobResult,
    Outcome,
    RunningJob,
)
from dragoman.live.shared import records as r

MEAN_WEIGHT = 0.2
"""How much the newest service time counts in a node's mean."""


class Grave(msgspec.Struct):
    """A tombstone: until when a late `reserve` is turned away, and who ended the attempt."""

    until_ms: int
    by_node: bool


class CellAttempt(msgspec.Struct, kw_only=True):
    """An attempt that holds a slot, or one that has ended and whose result is kept."""

    attempt_id: AttemptId
    cell: int
    job_id: JobId
    node_id: NodeId
    owner: Owner
    job_class: JobClass
    instance_id: InstanceId
    """Who drives the job."""
    lease_ms: int
    run_ms: int
    due_at_ms: int
    state: AttemptState = AttemptState.DISPATCHED
    acked: bool = False
    """The current connection of the node has acknowledged or listed it."""
    ack_number: int = 0
    """Of the node's word that acknowledged it first."""
    asked: bool = False
    run_until_ms: int = 0
    dispatched_ms: int = 0
    accepted_ms: int = 0
    running_ms: int = 0
    finished_ms: int = 0
    cancelled_ms: int = 0
    grace_ms: int = 0
    """How long its node has to let go of it; its tombstone stays as long."""
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    by_node: bool = False
    """It ended because its node said so."""
    preemptions: int = 0
    heir: r.SlotAsk | None = None
    """The live attempt that gets the slot of this cancelled one."""

    @property
    def running(self) -> RunningJob:
        return RunningJob(self.job_id, self.attempt_id)

    @property
    def times(self) -> Times:
        return Times(self.dispatched_ms, self.accepted_ms, self.running_ms, self.finished_ms)

    @property
    def is_cancelling(self) -> bool:
        return self.state is AttemptState.CANCELLING

    def acknowledge(self, number: int) -> None:
        """The node's current connection speaks of it."""
        if not self.acked:
            self.acked, self.ack_number = True, number

    def must_be_listed(self, number: int) -> bool:
        """Whether a heartbeat of this number lists it, if the node has it.

        One that was not acknowledged may still be on its way to the node, unless it is cancelled
        and the node was asked to report.
        """
        if self.acked:
            return self.ack_number <= number
        return self.is_cancelling and self.asked

    def accept(self, number: int, now_ms: int) -> None:
        """The node has it: from now on heartbeats keep the lease and the run time counts."""
        self.acknowledge(number)
        if not self.accepted_ms:
            self.accepted_ms = now_ms
            self.run_until_ms = now_ms + self.run_ms
        self.due_at_ms = min(now_ms + self.lease_ms, self.run_until_ms)

    def listed(self, number: int, now_ms: int) -> None:
        """The node says that it runs the attempt: that is as good as an acknowledgement."""
        if self.is_cancelling:
            self.acknowledge(number)
            return
        if self.state is AttemptState.DISPATCHED:
            self.state = AttemptState.ACCEPTED
        self.accept(number, now_ms)

    def cancel(self, error: ErrorInfo, grace_ms: int, now_ms: int) -> None:
        """Take the attempt from its node, which keeps the slot until it has let go."""
        self.state = AttemptState.CANCELLING
        self.error = error
        self.cancelled_ms, self.grace_ms = now_ms, grace_ms
        self.due_at_ms = now_ms + grace_ms

    def preempted(self) -> r.Preempting:
        return r.Preempting(
            self.running, self.instance_id, self.node_id, self.owner, self.cancelled_ms
        )

    def record(self) -> r.StoredAttempt:
        return r.StoredAttempt(
            attempt_id=self.attempt_id,
            job_id=self.job_id,
            cell=self.cell,
            node_id=self.node_id,
            owner=self.owner,
            job_class=self.job_class,
            state=self.state,
            instance_id=self.instance_id,
            due_at_ms=self.due_at_ms,
            run_until_ms=self.run_until_ms,
            asked=self.asked,
            times=self.times,
            outcome=self.outcome,
            error=self.error,
            output=self.output,
            preemptions=self.preemptions,
        )


class CellSeat(msgspec.Struct, kw_only=True):
    """A node's place in a cell."""

    node_id: NodeId
    index: int
    slots: int
    owner: Owner
    alive_until_ms: int = 0
    online: bool = True
    drained: bool = False
    mean_ms: float = 0.0
    facts: bytes = b""
    promised_until_ms: int = 0
    """Until then an instance that waited is on its way to a slot that came free."""
    held: dict[AttemptId, CellAttempt] = msgspec.field(default_factory=dict)

    @property
    def bit(self) -> int:
        return 1 << self.index

    @property
    def held_count(self) -> int:
        return len(self.held)

    def is_open(self, now_ms: int) -> bool:
        """Its slots may be granted, as far as they are free."""
        return self.online and not self.drained and self.alive_until_ms > now_ms

    def free_slots(self, now_ms: int) -> int:
        """How many slots of it may be granted now."""
        return max(0, self.slots - len(self.held)) if self.is_open(now_ms) else 0

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
