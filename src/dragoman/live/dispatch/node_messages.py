"""What nodes say about their attempts, and what becomes of attempts whose node is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

from dragoman.clock import Clock
from dragoman.ids import AttemptId, JobId, NodeId
from dragoman.live.dispatch.driver import JobDriver
from dragoman.live.dispatch.job import ACCEPTED, RUNNING, SUCCESS, Job, Progress, Step
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.dispatch.telemetry import DispatchTelemetry, progressed
from dragoman.live.fleet import Seated
from dragoman.live.ledger import Adoption, Ending, Freed, JobRecord, Owner, Sender, StaleReason
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

GIVEN_UP = frozenset({"JOB_TIMEOUT", "JOB_CANCELLED", "NODE_UNAVAILABLE", "PREEMPTED"})
"""Ends that an attempt gets without its node's word."""


def why_dropped(job: JobRecord | None, attempt_id: AttemptId, node_id: NodeId) -> StaleReason:
    """What the job remembers of an attempt that its cell has forgotten."""
    past = next((a for a in job.attempts if a.attempt_id == attempt_id), None) if job else None
    if job is None or past is None or past.outcome is None:
        return StaleReason.UNKNOWN
    if past.node_id != node_id:
        return StaleReason.WRONG_NODE
    if past.outcome is SUCCESS:
        return StaleReason.DUPLICATE
    if past.error is not None and past.error.code in GIVEN_UP:
        return StaleReason.LATE
    return StaleReason.DUPLICATE if past is job.attempts[-1] else StaleReason.OLD_ATTEMPT


_REASON_MAX_CHARACTERS = 256
"""Of a node's reason for a missing model: it is kept as long as the job is."""

UNKNOWN_AT_A_TIME = 500
"""Of a node's unknown attempts, looked at for one heartbeat; it is told of each to cancel it."""


class BreakerPort(Protocol):
    """Counts how a node's attempts go."""

    def acknowledged(self, attempt_id: AttemptId, now: float) -> None: ...
    def answered(self, attempt_id: AttemptId) -> None: ...


class AttemptNode(Protocol):
    """A node that is connected here, as far as its messages tell of attempts."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def cell(self) -> int: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def sender(self) -> Sender: ...
    @property
    def words(self) -> int: ...
    @property
    def breaker(self) -> BreakerPort: ...


class OtherAttempts(Protocol):
    """Takes what is said of attempts that no job driven here has now."""

    def took_step(self, node: AttemptNode, attempt_id: AttemptId, step: Step) -> None: ...
    def finished(
        self, node: AttemptNode, attempt_id: AttemptId, job_id: JobId | None, ending: Ending
    ) -> bool: ...
    def partial(self, node: AttemptNode, partial: JobPartial) -> None: ...
    async def lost(self, cell: int, entry: RunningJob) -> None: ...
    async def is_wanted(
        self, cell: int, sender: Sender, entry: RunningJob, number: int
    ) -> bool: ...


OnStep = Callable[[Job, AttemptNode, Step], None]


class NodeMessages:
    """Takes messages about attempts to their jobs."""

    def __init__(
        self,
        driver: JobDriver,
        others: OtherAttempts,
        telemetry: DispatchTelemetry,
        origin_ms: int,
        clock: Clock,
        on_step: OnStep | None = None,
    ) -> None:
        """origin_ms is when the clock was 0; on_step is told of steps that others must know of."""
        self._driver = driver
        self._attempts = driver.attempts
        self._others = others
        self._dropped = telemetry.dropped
        self._origin_ms = origin_ms
        self._clock = clock
        self._on_step = on_step

    # --- hot ------------------------------------------------------------------------------------

    def took_step(self, node: AttemptNode, attempt_id: AttemptId, step: Step, now: float) -> None:
        """The node accepted the attempt, or began to work on it. Forward only."""
        job = self._attempts.get(attempt_id)
        if job is None:
            self._others.took_step(node, attempt_id, step)
            return
        seat = job.seat
        if seat is None or seat.node_id != node.node_id or job.epoch != node.owner.epoch:
            return
        if not job.acked:
            job.acked = True
        if job.step < step:
            at_ms = self._origin_ms + int(now * 1000)
            job.step = step
            if not job.accepted_ms:
                job.accepted_ms = at_ms
            if step is RUNNING:
                job.running_ms = at_ms
            if self._on_step is not None:
                self._on_step(job, node, step)
        if job.shown < step:
            if job.watched or job.on_progress is not None or job.trace is not None:
                _show(job, step)
            job.shown = step

    def finished(self, node: AttemptNode, result: JobResult, now: float) -> bool:
        """The attempt is over, well or not; False when it was over before, or never was."""
        if result.success:
            ending = Ending(SUCCESS, result)
        else:
            error = result.error or ErrorInfo(
                "INTERNAL_ERROR", "The node failed without saying why."
            )
            ending = Ending(Outcome.FAILED, error=error)
        # A result whose job_id cannot be read has an empty one: its attempt says whose it is.
        return self._finish(node, result.attempt_id, result.job_id or None, ending, now)

    def _finish(
        self,
        node: AttemptNode,
        attempt_id: AttemptId,
        job_id: JobId | None,
        ending: Ending,
        now: float,
    ) -> bool:
        job = self._attempts.get(attempt_id)
        if job is None:
            return self._others.finished(node, attempt_id, job_id, ending)
        seat = job.seat
        if seat is None or seat.node_id != node.node_id:
            self._dropped(StaleReason.WRONG_NODE)
        elif job.job_id != job_id and job_id is not None:
            self._dropped(StaleReason.UNKNOWN)  # It names another job than its attempt is of.
        elif job.epoch != node.owner.epoch:
            self._dropped(StaleReason.OLD_ATTEMPT)
        elif job.in_flight:
            self._dropped(StaleReason.DUPLICATE)
        else:
            self._driver.finish(job, ending, now)
            return True
        return False

    # --- rare -----------------------------------------------------------------------------------

    def model_not_available(
        self, node: AttemptNode, message: ModelNotAvailable, now: float
    ) -> None:
        """A service is missing; the attempt it was needed for goes elsewhere."""
        if message.attempt_id is None:
            return
        reason = message.reason[:_REASON_MAX_CHARACTERS]
        error = ErrorInfo("MODEL_NOT_AVAILABLE", f"{message.service_id}: {reason}")
        ending = Ending(Outcome.FAILED, error=error)
        self._finish(node, message.attempt_id, message.job_id, ending, now)

    def partial(self, node: AttemptNode, partial: JobPartial) -> None:
        """What the node has recognised so far; only of its own, current attempt."""
        job = self._attempts.get(partial.attempt_id)
        if job is None:
            self._others.partial(node, partial)
            return
        if job.seat is None or job.seat.node_id != node.node_id or job.job_id != partial.job_id:
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
            else:
                await self._others.lost(cell, entry)

    def passed(self, node: Seated, running: Iterable[RunningJob]) -> None:
        """Attempts go on over the node's new connection."""
        for entry in running:
            job = self._attempts.get(entry.attempt_id)
            if job is not None and job.seat is not None and job.seat.node_id == node.node_id:
                job.seat.owner = node.owner
                job.epoch = node.owner.epoch

    async def unknown(
        self, cell: int, sender: Sender, running: Iterable[RunningJob], words: int = 0
    ) -> tuple[RunningJob, ...]:
        """Attempts a node runs that its cell does not know; answers those it must cancel.

        Of very many only some are looked at: a node lists the others again with its next
        heartbeat.
        """
        unwanted = []
        async for entry in yielding(islice(running, UNKNOWN_AT_A_TIME), self._clock):
            if not await self._others.is_wanted(cell, sender, entry, words):
                unwanted.append(entry)
        return tuple(unwanted)


class LeftAttempts:
    """What nodes say of attempts that their jobs have left, where one instance has them all."""

    def __init__(
        self, ledger: MemoryLedger, driver: JobDriver, telemetry: DispatchTelemetry
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._telemetry = telemetry

    def took_step(self, node: AttemptNode, attempt_id: AttemptId, step: Step) -> None:
        """The node has the attempt."""
        self._ledger.late(node.cell, node.sender, attempt_id, ends=False)

    def finished(
        self, node: AttemptNode, attempt_id: AttemptId, job_id: JobId | None, ending: Ending
    ) -> bool:
        """A result that no job waits for: its slot, if it still holds one, comes free."""
        late = self._ledger.late(node.cell, node.sender, attempt_id, ends=True)
        reason = late.reason
        if reason is StaleReason.UNKNOWN and job_id is not None:
            job = self._ledger.find(job_id)
            record = self._ledger.record(job) if job is not None else None
            reason = why_dropped(record, attempt_id, node.node_id)
        self._telemetry.dropped(reason)
        if late.freed is not None:
            self._driver.freed(late.freed)
        return False

    def partial(self, node: AttemptNode, partial: JobPartial) -> None:
        """What no job waits for is not passed on."""

    async def lost(self, cell: int, entry: RunningJob) -> None:
        """Its slot is free already."""

    async def is_wanted(self, cell: int, sender: Sender, entry: RunningJob, number: int) -> bool:
        """An attempt of a scheduler that is gone: it holds its slot until the node lets go."""
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
        return False


def _show(job: Job, step: Step) -> None:
    """Tell watchers of the steps that they have not been told of."""
    if job.shown < ACCEPTED:
        progressed(job, Progress.ACCEPTED)
    if step is RUNNING:
        progressed(job, Progress.RUNNING)
