"""A job's course: looking for a slot, being handed over to a node, trying again.

Several things may happen to a job at once: a result, a timeout, a cancel. None of them takes a
lock. Each takes a step in the ledger first, and goes on only if the ledger says the step was its.
"""

from __future__ import annotations

from math import inf

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId
from dragoman.live.budget import Budget
from dragoman.live.dispatch.allocation import Allocated, Allocator, Inheriting
from dragoman.live.dispatch.assignment import assignment
from dragoman.live.dispatch.background import Background
from dragoman.live.dispatch.deadlines import Deadlines
from dragoman.live.dispatch.explanations import Explanations
from dragoman.live.dispatch.freed_slots import FreedSlots
from dragoman.live.dispatch.giving_up import GivingUp
from dragoman.live.dispatch.inheritance import Inheritances
from dragoman.live.dispatch.live_job import LiveAttempt, LiveJob
from dragoman.live.dispatch.lookout import Lookout
from dragoman.live.dispatch.orders import waits_forever
from dragoman.live.dispatch.ports import NodePort, PeerPort
from dragoman.live.dispatch.reach import Reach
from dragoman.live.dispatch.reception import Reception
from dragoman.live.dispatch.refusal import as_info, with_job
from dragoman.live.dispatch.reviving import Reviving
from dragoman.live.dispatch.routes import Routes
from dragoman.live.dispatch.sightings import Sightings
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.dispatch.under_way import UnderWay
from dragoman.live.dispatch.watching import Watching
from dragoman.live.ledger import (
    Bound,
    Ending,
    Granted,
    JobDone,
    JobInput,
    JobRecord,
    Ledger,
    MemoryLedger,
    Settlement,
    Step,
    Terms,
    TryAgain,
)
from dragoman.live.protocol import (
    ErrorInfo,
    Outcome,
    RunningJob,
)
from dragoman.live.snapshot import Requirements
from dragoman.observability import Watch, get_logger

log = get_logger("dragoman.dispatch")

UNREACHABLE = ErrorInfo("NODE_UNAVAILABLE", "The node's connection was gone before it was told.")


class Course:
    """Drives the jobs of this instance."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        allocator: Allocator,
        settlement: Settlement,
        nodes: NodePort,
        requirements: Requirements,
        routes: Routes,
        explanations: Explanations,
        sightings: Sightings,
        tenants: TenantJobs,
        watch: Watch,
        terms: Terms,
        pending_seconds: float,
        pending_per_pair: int,
        instance_id: InstanceId,
        clock: Clock,
        budget: Budget,
        peers: PeerPort | None = None,
    ) -> None:
        """peers reach other instances; None: this one is alone."""
        self.tenants = tenants
        self.reach = Reach(nodes, peers, instance_id)
        self._background = Background(at_once=isinstance(ledger, MemoryLedger) and peers is None)
        self.spawn = self._background.spawn
        self.run = self._background.run
        self.watching = Watching(ledger, peers, self.spawn) if peers is not None else None
        """How jobs of other instances go on; None: there are no others."""
        self.lookout = (
            Lookout(ledger, clock, self.watching.ask) if self.watching else Lookout(ledger, clock)
        )
        self.reception = Reception(
            place=self.place,
            spawn=self.spawn,
            pending_seconds=pending_seconds,
            pending_per_pair=pending_per_pair,
            clock=clock,
        )
        self._inheritances = Inheritances(ledger, settlement, terms, self, self.reach, clock)
        self._under_way = UnderWay(
            reception=self.reception,
            inheritances=self._inheritances,
            lookout=self.lookout,
            sightings=sightings,
            tenants=tenants,
            instance_id=instance_id,
            clock=clock,
            peers=peers,
            budget=budget,
        )
        self.jobs = self._under_way.jobs
        self.attempts = self._under_way.attempts
        self.idle = self._under_way.idle
        self.ended = self._under_way.ended
        self.abandon = self._under_way.abandon
        self.hand_on = self._under_way.hand_on
        self.gone = self._under_way.gone
        freed_slots = FreedSlots(
            jobs=self.jobs,
            reception=self.reception,
            inheritances=self._inheritances,
            ledger=ledger,
            spawn=self.spawn,
            instance_id=instance_id,
            peers=peers,
        )
        self.freed = freed_slots.freed
        self.inherited = freed_slots.inherited
        self.wake = self.reception.wake
        giving_up = GivingUp(
            settlement=settlement,
            terms=terms,
            course=self,
            under_way=self._under_way,
            reception=self.reception,
            inheritances=self._inheritances,
            reach=self.reach,
            clock=clock,
        )
        self.give_up = giving_up.give_up
        self.end_by_force = giving_up.end_by_force
        # Alone, an instance hears of everything itself.
        self._look_seconds = terms.ack_ms / 1000 if peers is not None else inf
        self._deadlines = Deadlines(
            self.jobs,
            ledger,
            settlement,
            terms,
            giving_up,
            self.follow,
            self.spawn,
            clock,
            look_seconds=self._look_seconds,
        )
        self._reviving = Reviving(
            ledger, requirements, routes, pending_seconds, terms.ack_ms, clock
        )
        self._ledger = ledger
        self._allocator = allocator
        self._settlement = settlement
        self._nodes = nodes
        self._explanations = explanations
        self._sightings = sightings
        self._watch = watch
        self._terms = terms
        self._instance_id = instance_id
        self._clock = clock
        self._peers = peers

    # --- looking for a slot ----------------------------------------------------------------------

    async def begin(self, job: LiveJob) -> errors.DragomanError | None:
        """Look for the job's slot; answers the refusal when there is none and it cannot wait."""
        self._under_way.enter(job)
        if self.reception.stand_behind(job):
            self._deadlines.arm(job)
            return None
        wakes = self.reception.wakes
        error = await self.place(job)
        if self.jobs.get(job.job_id) is not job:
            return None
        if error is None or self.reception.wait(job, error, wakes=wakes):
            self._deadlines.arm(job)
            return None
        return error

    async def refuse(self, job: LiveJob, error: errors.DragomanError) -> None:
        """End a job that no node takes; it keeps its record and its explanation."""
        with_job(error, job.job_id)
        self._sightings.refused(job, error)
        step = await self._settlement.end_without_attempt(
            job.job_id, Ending(Outcome.FAILED, error=as_info(error))
        )
        await self.follow(step)

    async def resume(self, record: JobRecord, job_input: JobInput | None = None) -> None:
        """Go on with a job that is CREATED again."""
        job = self.jobs.get(record.job_id)
        if job is None:
            job = await self._reviving.revive(record, job_input)
            # Meanwhile another task may have taken the job up here.
            job = self.jobs.get(record.job_id, job)
            if job is None:
                return
        if job.attempt is not None:
            if all(past.attempt_id != job.attempt.attempt_id for past in record.attempts):
                return  # It has gone on already.
            self._under_way.let_go(job)
        if job.inheritance is not None:
            return
        job.preemptions = record.preemptions
        if record.attempts and record.attempts[-1].counts:
            job.excluded |= {record.attempts[-1].node_id}
        if waits_forever(job.spec):
            job.deadline = None
        job.may_wait = True
        await self.look_again(job)

    async def go_on(self, record: JobRecord, job_input: JobInput | None = None) -> None:
        """A job needs another attempt: see to it, or have its driver do so."""
        if self._peers is not None and record.claimed_by != self._instance_id:
            self._peers.try_again(record.job_id, record.claimed_by)
        else:
            await self.resume(record, job_input)

    async def look_again(self, job: LiveJob) -> None:
        """Look for a slot for a job that was promised one, or had one."""
        if job.ended:
            return
        try:
            error = await self.begin(job)
        except errors.DependencyDown as down:
            # It waits until the ledger answers; the upkeep wakes those who wait.
            self.reception.wait(job, down, wakes=self.reception.wakes)
            self._deadlines.arm(job)
            return
        if error is not None:
            await self.refuse(job, error)

    async def place(self, job: LiveJob) -> errors.DragomanError | None:
        """Hold a slot, bind it and tell its node; the refusal when no slot is free."""
        if job.allocating:
            # The slot that is being found may be lost already: the task that finds it looks again.
            job.look_again = True
            return None
        job.allocating = True
        job.look_again = False
        try:
            while not job.ended:
                began = self._clock.monotonic()
                outcome = await self._allocator.allocate(job)
                self._watch.path_took("allocation", self._clock.monotonic() - began)
                self._explanations.keep(job.job_id, outcome.decisions)
                if isinstance(outcome, Inheriting):
                    self._inheritances.expect(job, outcome)
                    self._deadlines.arm(job)
                    return None
                if not isinstance(outcome, Allocated):
                    self._sightings.found_nobody(outcome.decisions[0], outcome.error)
                    self.reach.ask_cold(outcome.cold)
                    return outcome.error
                self._sightings.chose(outcome.decisions)
                placed = await self.hand_over(job, outcome.attempt_id, outcome.granted)
                again, job.look_again = job.look_again, False
                if placed and not (again and job.attempt is None):
                    return None
        finally:
            job.allocating = False
        return None

    async def hand_over(self, job: LiveJob, attempt_id: AttemptId, granted: Granted) -> bool:
        """Bind the slot to the job and tell the node; False when another slot must be found."""
        batch = waits_forever(job.spec)
        if job.trace is not None:
            job.trace.event("reserved", node_id=granted.node_id, attempt_id=attempt_id)
        bound = await self._ledger.bind(
            job.job_id,
            attempt_id,
            granted.cell,
            granted.node_id,
            total_ms=self._terms.total_ms if batch else None,
        )
        if not isinstance(bound, Bound):
            dropped = await self._ledger.drop(granted.cell, attempt_id)
            self.freed(getattr(dropped, "freed", None))
            return await self.is_looked_after(job)
        now = self._clock.monotonic()
        attempt = LiveAttempt(
            attempt_id, granted, now, self._terms.ack_ms / 1000, now + self._look_seconds
        )
        job.attempt = attempt
        self.attempts[attempt_id] = job
        if batch:
            job.deadline = now + self._terms.total_ms / 1000
        left_ms = int((job.deadline - now) * 1000) if job.deadline is not None else 0
        if job.ended:
            told = False
        elif self._peers is None or granted.owner.instance_id == self._instance_id:
            told = self._nodes.send(
                granted.node_id, granted.owner, assignment(job, attempt_id, max(0, left_ms))
            )
        else:
            told = await self._peers.assign(
                RunningJob(job.job_id, attempt_id),
                granted,
                watched=job.on_progress is not None,
                traceparent=job.trace.traceparent if job.trace is not None else None,
            )
        if told:
            job.pending_until = None
            job.placed()
            self._allocator.served(job, granted.node_id, now)
            self._sightings.dispatched(job, granted, now)
            self._deadlines.arm(job)
            return True
        return await self._not_told(job, attempt, granted)

    async def _not_told(self, job: LiveJob, attempt: LiveAttempt, granted: Granted) -> bool:
        """The node was gone before it heard of the attempt."""
        self._under_way.let_go(job)
        step = await self._settlement.failed(attempt.record(job), UNREACHABLE)
        dropped = await self._ledger.drop(granted.cell, attempt.attempt_id)
        self.freed(getattr(dropped, "freed", None))
        if isinstance(step, TryAgain):
            self._sightings.failed_over(job, granted.node_id, UNREACHABLE.code)
            job.excluded |= {granted.node_id}
            return False
        await self.follow(step)
        return await self.is_looked_after(job)

    async def is_looked_after(self, job: LiveJob) -> bool:
        """Whether the job has its end or an attempt that is out; False when it must look on."""
        if job.ended:
            return True
        record = await self._ledger.read(job.job_id)
        if record is None:
            self.gone(job)
            return True
        if record.ended:
            self.ended(record)
            return True
        current = record.current_attempt
        if current is None:
            return False
        if await self._ledger.read_attempt(current.cell, current.attempt_id) is not None:
            return True
        # Its cell does not know it: the ledger's server failed over and lost what it had
        # confirmed, or the instance that won the attempt back could not tell the job. Only this
        # ends it.
        step = await self._settlement.forgotten(record, current)
        if isinstance(step, JobDone):
            self.ended(step.job)
            return True
        self._sightings.failed_over(job, current.node_id, UNREACHABLE.code)
        job.excluded |= {current.node_id}
        return False

    # --- coming to an end ------------------------------------------------------------------------

    async def follow(self, step: Step) -> None:
        """Do what the end of an attempt calls for."""
        match step:
            case JobDone(record):
                self.ended(record)
            case TryAgain(record):
                last = record.attempts[-1]
                job = self.jobs.get(record.job_id)
                code = last.error.code if last.error else ""
                if job is not None:
                    self._sightings.failed_over(job, last.node_id, code)
                await self.go_on(record)

    async def stop(self) -> None:
        await self._background.stop()
        self._deadlines.stop()
