"""What nodes say about their attempts, and what becomes of attempts whose node is gone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from dragoman.clock import Clock
from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.core.driver import JobDriver
from dragoman.live.core.job import Job, Step
from dragoman.live.core.memory import MemoryLedger
from dragoman.live.core.telemetry import DispatchTelemetry, progressed
from dragoman.live.dispatch import Progress, why_dropped
from dragoman.live.ledger import Adoption, Ending, Freed, Owner, Sender, StaleReason
from dragoman.live.protocol import (
    ErrorInfo,
    JobClass,
    JobPartial,
    JobResult,
    ModelNotAvailable,
    Outcome,
    RunningJob,
)
from dragoman.observability import yielding

_REASON_MAX_CHARACTERS = 256
"""Of a node's reason for a missing model: it is kept as long as the job is."""

UNKNOWN_AT_A_TIME = 500
"""Of a node's unknown attempts, looked at for one heartbeat; it is told of each to cancel it."""


class Node(Protocol):
    """A node that is connected here, as far as its messages tell of attempts."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def cell(self) -> int: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def sender(self) -> Sender: ...


class NodeMessages:
    """Takes messages about attempts to their jobs."""

    def __init__(
        self,
        ledger: MemoryLedger,
        driver: JobDriver,
        telemetry: DispatchTelemetry,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._attempts = driver.attempts
        self._telemetry = telemetry
        self._clock = clock

    # --- hot ------------------------------------------------------------------------------------

    def took_step(self, node: Node, attempt_id: AttemptId, step: Step, now: float) -> None:
        """The node accepted the attempt, or began to work on it. Forward only."""
        job = self._attempts.get(attempt_id)
        if job is None:
            self._ledger.late(node.cell, node.sender, attempt_id, ends=False)
            return
        seat = job.seat
        if seat is None or seat.node_id != node.node_id or job.epoch != node.owner.epoch:
            return
        job.acked = True
        if job.step < step:
            at_ms = self._ledger.origin_ms + int(now * 1000)
            job.step = step
            if not job.accepted_ms:
                job.accepted_ms = at_ms
            if step is Step.RUNNING:
                job.running_ms = at_ms
        if job.shown < step:
            if job.watched or job.on_progress is not None or job.trace is not None:
                _show(job, step)
            job.shown = step

    def finished(self, node: Node, result: JobResult, now: float) -> bool:
        """The attempt is over, well or not; False when it was over before, or never was."""
        if result.success:
            ending = Ending(Outcome.SUCCESS, result)
        else:
            error = result.error or ErrorInfo(
                "INTERNAL_ERROR", "The node failed without saying why."
            )
            ending = Ending(Outcome.FAILED, error=error)
        return self._finish(node, result.attempt_id, result.job_id, ending, now)

    def _finish(
        self,
        node: Node,
        attempt_id: AttemptId,
        job_id: JobId | None,
        ending: Ending,
        now: float,
    ) -> bool:
        job = self._attempts.get(attempt_id)
        if job is None:
            self._drop_late(node.cell, node.sender, attempt_id, job_id)
            return False
        seat = job.seat
        if seat is None or seat.node_id != node.node_id:
            self._telemetry.dropped(StaleReason.WRONG_NODE)
        elif job.epoch != node.owner.epoch:
            self._telemetry.dropped(StaleReason.OLD_ATTEMPT)
        elif job.in_flight:
            self._telemetry.dropped(StaleReason.DUPLICATE)
        else:
            self._driver.finish(job, ending, now)
            return True
        return False

    # --- rare -----------------------------------------------------------------------------------

    def model_not_available(self, node: Node, message: ModelNotAvailable, now: float) -> None:
        """A service is missing; the attempt it was needed for goes elsewhere."""
        if message.attempt_id is None:
            return
        reason = message.reason[:_REASON_MAX_CHARACTERS]
        error = ErrorInfo("MODEL_NOT_AVAILABLE", f"{message.service_id}: {reason}")
        ending = Ending(Outcome.FAILED, error=error)
        self._finish(node, message.attempt_id, message.job_id, ending, now)

    def partial(self, node: Node, partial: JobPartial) -> None:
        """What the node has recognised so far; only of its own, current attempt."""
        job = self._attempts.get(partial.attempt_id)
        if job is None or job.seat is None or job.seat.node_id != node.node_id:
            return
        if job.owner is not None:
            job.owner.job_partial(job, partial)
        elif job.on_partial is not None:
            job.on_partial(partial)

    def freed(self, freed: Freed) -> None:
        """Slots came free."""
        self._driver.freed(freed)

    def wake(self) -> None:
        """The fleet can do more than before."""
        self._driver.pending.wake()

    async def lost(self, cell: int, running: Iterable[RunningJob]) -> None:
        """Attempts whose node no longer has them go elsewhere, now."""
        async for entry in yielding(running, self._clock):
            job = self._attempts.get(entry.attempt_id)
            if job is not None:
                self._driver.lost(job, self._clock.monotonic())

    async def unknown(
        self, cell: int, sender: Sender, running: Iterable[RunningJob], words: int = 0
    ) -> tuple[RunningJob, ...]:
        """Attempts a node runs that its cell does not know; answers those it must cancel.

        They are of a scheduler that is gone. Of very many only some are looked at: a node lists
        the others again with its next heartbeat.
        """
        unwanted = []
        async for entry in yielding(islice(running, UNKNOWN_AT_A_TIME), self._clock):
            await self._ledger.adopt(
                cell,
                Adoption(
                    running=entry,
                    sender=sender,
                    job_class=JobClass.LIVE,
                    wanted=False,
                    lease_ms=0,
                    run_ms=0,
                ),
            )
            unwanted.append(entry)
        return tuple(unwanted)

    def _drop_late(
        self, cell: int, sender: Sender, attempt_id: AttemptId, job_id: JobId | None
    ) -> None:
        """A result that no job waits for: its slot, if it still holds one, comes free."""
        late = self._ledger.late(cell, sender, attempt_id, ends=True)
        reason = late.reason
        if reason is StaleReason.UNKNOWN and job_id is not None:
            job = self._ledger.find(job_id)
            record = self._ledger.record(job) if job is not None else None
            reason = why_dropped(record, attempt_id, sender.node_id)
        self._telemetry.dropped(reason)
        if late.freed is not None:
            self._driver.freed(late.freed)


def _show(job: Job, step: Step) -> None:
    """Tell watchers of the steps that they have not been told of."""
    if job.shown < Step.ACCEPTED:
        progressed(job, Progress.ACCEPTED)
    if step is Step.RUNNING:
        progressed(job, Progress.RUNNING)
