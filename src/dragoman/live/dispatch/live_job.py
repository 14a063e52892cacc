"""A job this instance drives, with the attempt that is out for it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from dragoman.errors import DragomanError
from dragoman.ids import AttemptId, JobId, NodeId, TenantId
from dragoman.live.dispatch.orders import OnEnd, OnPartial, OnProgress, Progress
from dragoman.live.dispatch.routes import Route
from dragoman.live.dispatch.spans import STEP_NAMES
from dragoman.live.dispatch.waiting import Demand
from dragoman.live.ledger import (
    AttemptRecord,
    Granted,
    JobInput,
    JobRecord,
    JobSpec,
    Owner,
    SlotAsk,
    Times,
)
from dragoman.live.protocol import AttemptState
from dragoman.live.snapshot import Requirement
from dragoman.observability import Trace


class LiveAttempt:
    """An attempt that a node was told of. Deadlines are monotonic seconds."""

    __slots__ = (
        "accepted_ms",
        "attempt_id",
        "cell",
        "deadline",
        "dispatched_at",
        "dispatched_ms",
        "look_at",
        "node_id",
        "owner",
        "running_ms",
    )

    def __init__(
        self,
        attempt_id: AttemptId,
        granted: Granted,
        now: float,
        ack_seconds: float,
        look_at: float = inf,
    ) -> None:
        self.attempt_id = attempt_id
        self.cell = granted.cell
        self.node_id = granted.node_id
        self.owner: Owner = granted.owner
        self.dispatched_ms = granted.at_ms
        self.dispatched_at = now
        """The same moment: times that the ledger tells are measured from here."""
        self.accepted_ms = 0
        self.running_ms = 0
        self.deadline = now + ack_seconds
        """For the acknowledgement, then for the run."""
        self.look_at = look_at
        """When to ask the ledger for its state, if no message comes before."""

    def accepted(self, at_ms: int, now: float, run_ms: int) -> None:
        """The node has it since a time that the ledger tells: from then on its run time counts.

        The ledger's time is compared with the ledger's alone. This machine's wall clock may be
        set, and another machine's may be ahead.
        """
        if not self.accepted_ms:
            self.accepted_ms = at_ms
            since = self.dispatched_at + (at_ms - self.dispatched_ms) / 1000
            self.deadline = max(self.dispatched_at, min(since, now)) + run_ms / 1000

    def is_last_of(self, record: JobRecord) -> bool:
        """Whether the job made no attempt after this one."""
        return bool(record.attempts) and record.attempts[-1].attempt_id == self.attempt_id

    def times(self, finished_ms: int = 0) -> Times:
        return Times(self.dispatched_ms, self.accepted_ms, self.running_ms, finished_ms)

    def record(self, job: LiveJob, finished_ms: int = 0) -> AttemptRecord:
        """What the ledger would say of it, without asking."""
        return AttemptRecord(
            attempt_id=self.attempt_id,
            job_id=job.job_id,
            cell=self.cell,
            node_id=self.node_id,
            owner=self.owner,
            job_class=job.spec.job_class,
            state=AttemptState.ACCEPTED if self.accepted_ms else AttemptState.DISPATCHED,
            acked=bool(self.accepted_ms),
            due_at_ms=0,
            times=self.times(finished_ms),
        )


class Inheritance:
    """A slot that a preempted batch attempt is about to leave to the job."""

    __slots__ = ("ask", "cell", "until")

    def __init__(self, ask: SlotAsk, cell: int, until: float) -> None:
        self.ask = ask
        self.cell = cell
        self.until = until


class LiveJob:
    """A job that has not ended, as the instance that drives it sees it."""

    __slots__ = (
        "allocating",
        "attempt",
        "began",
        "deadline",
        "demand",
        "ended",
        "excluded",
        "inheritance",
        "input",
        "job_id",
        "look_again",
        "look_at",
        "may_wait",
        "on_end",
        "on_partial",
        "on_placed",
        "on_progress",
        "pending_until",
        "preemptions",
        "refusal",
        "requirement",
        "route",
        "spec",
        "started",
        "trace",
        "waiting",
    )

    def __init__(
        self,
        job_id: JobId,
        spec: JobSpec,
        job_input: JobInput,
        requirement: Requirement,
        route: Route | None,
        started: float,
    ) -> None:
        self.job_id = job_id
        self.spec = spec
        self.input = job_input
        self.requirement = requirement
        named = spec.preferred_node_id
        self.demand: Demand = (requirement, named, None if named is None else spec.tenant)
        self.route = route
        self.started = started
        self.began = started
        self.deadline: float | None = None
        """The end of its total time; None for batch work between attempts."""
        self.may_wait = False
        self.waiting = False
        self.pending_until: float | None = None
        """Until when it may wait for a slot; set anew after each attempt."""
        self.refusal: DragomanError | None = None
        """Why it waits."""
        self.inheritance: Inheritance | None = None
        self.attempt: LiveAttempt | None = None
        self.look_again = False
        """Another task wanted a slot for it meanwhile."""
        self.allocating = False
        """A task is looking for a slot for it."""
        self.ended = False
        """This instance drives it no more."""
        self.excluded: frozenset[NodeId] = frozenset()
        self.preemptions = 0
        self.on_end: list[OnEnd] = []
        self.on_progress: OnProgress | None = None
        self.on_partial: OnPartial | None = None
        self.on_placed: list[Callable[[], None]] = []
        """Called once, when a node was told of the job or the job ended without one."""
        self.trace: Trace | None = None
        self.look_at = inf
        """When its driver looks at it next, if nothing happens before."""

    @property
    def kept_bytes(self) -> int:
        """What the process keeps for the job; a session counts what it has said itself."""
        return self.input.size_bytes if self.spec.session_id is None else 0

    def progressed(self, progress: Progress) -> None:
        """Tell watchers that the job took a step."""
        if self.trace is not None:
            self.trace.event(STEP_NAMES[progress])
        if self.on_progress is not None:
            self.on_progress(progress, self.job_id)

    @property
    def adrift(self) -> bool:
        """Nothing is under way for it: no attempt, no search, no waiting."""
        return not (
            self.ended
            or self.allocating
            or self.waiting
            or self.attempt is not None
            or self.inheritance is not None
        )

    @property
    def tenant(self) -> TenantId:
        return self.spec.tenant

    def next_deadline(self) -> float:
        """When its driver must look at the job, if nothing happens before."""
        at = inf if self.deadline is None else self.deadline
        if self.attempt is not None:
            at = min(at, self.attempt.deadline, self.attempt.look_at)
        if self.waiting and self.pending_until is not None and self.pending_until < at:
            at = self.pending_until
        if self.inheritance is not None and self.inheritance.until < at:
            at = self.inheritance.until
        return at

    def placed(self) -> None:
        """A node was told, or none will be."""
        waiting, self.on_placed = self.on_placed, []
        for callback in waiting:
            callback()
