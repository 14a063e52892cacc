"""The one entry for jobs: sessions, `POST /jobs` and experiments all come in here."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Collection, Coroutine
from random import Random
from typing import Any, NoReturn

import msgspec

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import InstanceId, JobId, TenantId
from dragoman.live.budget import Budget
from dragoman.live.dispatch.allocation import Allocator, Selection
from dragoman.live.dispatch.cancelling import Cancelling
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.explanations import Explanations
from dragoman.live.dispatch.forgotten import FORGOTTEN
from dragoman.live.dispatch.hosting import CancelledFirst, Hosting
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.node_events import NodeEvents
from dragoman.live.dispatch.orders import (
    JobOrder,
    OnEnd,
    OnPartial,
    OnProgress,
    body_hash,
    pairs_of,
    waits_forever,
)
from dragoman.live.dispatch.peer_events import PeerEvents
from dragoman.live.dispatch.ports import NodePort, PeerPort, TenantCounts
from dragoman.live.dispatch.refusal import as_info, with_job
from dragoman.live.dispatch.routes import Routes
from dragoman.live.dispatch.sightings import Sightings
from dragoman.live.dispatch.spans import begin_span
from dragoman.live.dispatch.tally import Tally
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.dispatch.upkeep import Share, Upkeep
from dragoman.live.ledger import (
    BodyConflict,
    Claim,
    Claimed,
    Ending,
    Existing,
    JobRecord,
    Ledger,
    Settlement,
    Terms,
)
from dragoman.live.protocol import AttemptState, ExplainView, Outcome
from dragoman.live.snapshot import Requirements, SnapshotHolder
from dragoman.observability import Metrics, Tracing, Watch

_NO_ROOM_RETRY_MS = 1_000


class Submitted(msgspec.Struct, frozen=True):
    """A job for an order: made by this call, or found."""

    job_id: JobId
    created: bool


class Limits(msgspec.Struct, frozen=True):
    """How long and how many; from the settings."""

    pending_seconds: float
    pending_per_pair: int
    inflight_per_tenant: int
    """0: no limit."""
    explain_max: int
    routes: int


class Dispatcher:
    """Creates jobs, finds them nodes, and brings them to their end."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        snapshots: SnapshotHolder,
        nodes: NodePort,
        terms: Terms,
        selection: Selection,
        limits: Limits,
        metrics: Metrics,
        watch: Watch,
        on_ended: Callable[[Outcome], None],
        instance_id: InstanceId,
        clock: Clock,
        random: Random,
        tracing: Tracing | None = None,
        peers: PeerPort | None = None,
        share: Callable[[], Share] = Share,
        cold: Callable[[], Collection[int]] | None = None,
        tenant_jobs: TenantCounts[JobId] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """peers reach other instances; share is what this one of them sweeps.

        cold names the cells that are known to have lost their memory. tenant_jobs counts jobs
        over all instances. budget counts what is kept; None: there is no limit.
        """
        self._budget = budget or Budget(sys.maxsize)
        self._ledger = ledger
        self._terms = terms
        self._instance_id = instance_id
        self._clock = clock
        self._random = random
        self._tracing = tracing
        self.routes = Routes(limits.routes)
        self._requirements = Requirements(snapshots.current.rule)
        self._explanations = Explanations(limits.explain_max)
        self.tally = Tally(metrics, clock)
        sightings = Sightings(metrics, self.tally, clock, on_ended)
        drives = None
        if peers is not None:
            drives = self.drives
            nodes = CancelledFirst(nodes)
        settlement = Settlement(ledger, terms, instance_id, drives)
        self._settlement = settlement
        self._course = Course(
            ledger=ledger,
            allocator=Allocator(ledger, snapshots, terms, selection, clock, random, cold),
            settlement=settlement,
            nodes=nodes,
            requirements=self._requirements,
            routes=self.routes,
            explanations=self._explanations,
            sightings=sightings,
            tenants=TenantJobs(limits.inflight_per_tenant, tenant_jobs),
            watch=watch,
            terms=terms,
            pending_seconds=limits.pending_seconds,
            pending_per_pair=limits.pending_per_pair,
            instance_id=instance_id,
            clock=clock,
            budget=self._budget,
            peers=peers,
        )
        self.hosting = (
            Hosting(
                ledger,
                self._course,
                nodes,
                peers,
                instance_id,
                fresh_ms=terms.ack_ms // 2,
            )
            if peers
            else None
        )
        """Looks after attempts of jobs that other instances drive."""
        self._cancelling = Cancelling(ledger, self._course, settlement, terms)
        self.peer_events = PeerEvents(ledger, self._course, instance_id, self.hosting)
        self.events = NodeEvents(
            ledger, settlement, self._course, sightings, terms, clock, self.hosting
        )
        self.upkeep = Upkeep(ledger, self._course, settlement, terms, instance_id, watch, share)
        self._draining = False
        metrics.pending_jobs.set_function(lambda: len(self._course.reception))

    # --- jobs ------------------------------------------------------------------------------------

    async def submit(self, order: JobOrder) -> Submitted:
        """Make the order's job, or find it when it was made before.

        Raises the refusal when no node takes the job and it may not wait; its on_end is then
        never called.
        """
        if self._draining:
            raise errors.ServerDraining("This server is shutting down; ask another one.")
        self.tally.asked()
        spec = order.spec
        requirement = self._requirements.of(pairs_of(spec), spec.pipeline, spec.features)
        batch = waits_forever(spec)
        began = self._clock.monotonic() if self._tracing is not None else 0.0
        answer = await self._ledger.claim(
            Claim(
                spec=spec,
                input=order.input,
                body_hash=body_hash(spec, order.input),
                instance_id=self._instance_id,
                claim_ms=self._terms.ack_ms,
                total_ms=None if batch else self._terms.total_ms,
            )
        )
        match answer:
            case BodyConflict():
                raise errors.RequestConflict(
                    f"request_id {spec.request_id} is bound to another request; "
                    "send a new one, or the same body.",
                    details={"job_id": answer.job_id},
                )
            case Existing():
                self._attach(answer.job, order)
                return Submitted(answer.job.job_id, created=False)
            case Claimed():
                await self._check_room(answer.job_id, order)
                if self._course.tenants.limited:
                    await self._check_tenant(answer.job_id, spec.tenant)
                self.tally.created += 1
                job = LiveJob(
                    answer.job_id,
                    spec,
                    order.input,
                    requirement,
                    self.routes.of(spec.session_id) if spec.session_id else None,
                    self._clock.monotonic(),
                )
        if not batch:
            job.deadline = job.started + self._terms.total_ms / 1000
        # Batch work waits for slots, but not for a pair or a feature that no node has.
        job.may_wait = order.may_wait and not batch
        if order.began is not None:
            job.began = order.began
        job.on_partial = order.on_partial
        job.on_progress = order.on_progress
        if spec.exclude_node_id is not None:
            job.excluded = frozenset((spec.exclude_node_id,))
        if self._tracing is not None:
            job.trace = begin_span(self._tracing, order, job.job_id, began)
        await self._look_for_slot(job)
        if order.on_end is not None:
            await self._listen(job, order, order.on_end)
        return Submitted(job.job_id, created=True)

    async def cancel(self, job_id: JobId) -> JobRecord:
        """End a job for its owner; raises JobEnded when it has its end already."""
        return await self._cancelling.cancel(job_id)

    async def read(self, job_id: JobId) -> tuple[JobRecord, AttemptState | None] | None:
        """A job, and the state of its current attempt."""
        record = await self._ledger.read(job_id)
        if record is None:
            return None
        current = record.current_attempt
        attempt = (
            await self._ledger.read_attempt(current.cell, current.attempt_id) if current else None
        )
        return record, attempt.state if attempt else None

    def explain(self, job_id: JobId) -> ExplainView | None:
        """How the job's nodes were chosen, and whether it waits; None when nothing is kept."""
        found = self._explanations.of(job_id)
        job = self._course.jobs.get(job_id)
        if job is None:
            return found
        waiting = self._course.reception.view(job) if job.waiting else None
        return ExplainView(job_id, found.attempts if found else (), waiting)

    async def ended(self, job_id: JobId, seconds: float) -> JobRecord | None:
        """Wait for a job's end; None when it takes longer."""
        end: asyncio.Future[JobRecord] = asyncio.get_running_loop().create_future()

        def told(record: JobRecord) -> None:
            if not end.done():
                end.set_result(record)

        job = self._course.jobs.get(job_id)
        if job is not None:
            job.on_end.append(told)
        else:
            record = await self._ledger.read(job_id)
            if record is None or record.ended:
                return record
            self.expect(record, told)
        try:
            return await asyncio.wait_for(end, seconds)
        except TimeoutError:
            return None
        finally:
            self.expect_no_more(job_id, told)

    def expect(
        self,
        record: JobRecord,
        on_end: OnEnd,
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Call back, once, when a job has ended, whichever instance drives it.

        The other two are called on its way there, instead of those that were until now.
        """
        job = self._course.jobs.get(record.job_id)
        if job is None:
            self._course.lookout.expect(record, on_end, on_partial, on_progress)
            return
        job.on_end.append(on_end)
        if on_partial is not None or on_progress is not None:
            job.on_partial, job.on_progress = on_partial, on_progress

    def expect_no_more(self, job_id: JobId, on_end: OnEnd) -> None:
        """Call back no more."""
        job = self._course.jobs.get(job_id)
        if job is not None and on_end in job.on_end:
            job.on_end.remove(on_end)
        self._course.lookout.forget(job_id, on_end)

    async def placed(self, job_id: JobId, seconds: float) -> None:
        """Wait until a job that inherits a slot has its node, or has ended without one."""
        job = self._course.jobs.get(job_id)
        if job is None or job.inheritance is None:
            return
        placed = asyncio.Event()
        job.on_placed.append(placed.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await placed.wait()

    # --- neighbours ------------------------------------------------------------------------------

    def drives(self, job_id: JobId) -> bool:
        """Whether this instance sees to the job's end."""
        return job_id in self._course.jobs

    def counts(self) -> dict[str, int]:
        """How many jobs this instance drives, and how many of them wait."""
        return {
            "jobs": len(self._course.jobs),
            "attempts": len(self._course.attempts),
            "waiting": len(self._course.reception),
            "looked_out_for": len(self._course.lookout),
        }

    def drain(self) -> None:
        """Take no new work; what is under way goes on.

        Batch jobs that wait are let go of: their claims run out, and another instance, if there
        is one, takes them up.
        """
        self._draining = True
        for job in self._course.reception.waiting_batch():
            self._course.abandon(job)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside, for as long as the dispatcher lives."""
        self._course.spawn(work)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """The same, but at once where the ledger never waits; what is left goes on beside."""
        self._course.run(work)

    async def wait_idle(self) -> None:
        """Wait until no job is under way."""
        await self._course.idle.wait()

    async def stop(self) -> None:
        await self._course.stop()

    # --- inside ----------------------------------------------------------------------------------

    async def _check_room(self, job_id: JobId, order: JobOrder) -> None:
        """Refuse what cannot be kept until a node has it; sessions see to theirs themselves."""
        if order.spec.session_id is None and not self._budget.has_room(order.input.size_bytes):
            await self._refuse_claimed(
                job_id,
                errors.RateLimited(
                    "This server keeps as many bytes for others as limits.buffered_bytes allows;"
                    " send the job again later, or to another server.",
                    retry_after_ms=_NO_ROOM_RETRY_MS,
                ),
            )

    async def _check_tenant(self, job_id: JobId, tenant: TenantId) -> None:
        """Refuse a tenant's job too many. Only a new one is: a repeated request finds its job."""
        error = await self._course.tenants.refusal(tenant, job_id)
        if error is not None:
            await self._refuse_claimed(job_id, error)

    async def _refuse_claimed(self, job_id: JobId, error: errors.DragomanError) -> NoReturn:
        """End a job that was just claimed; it keeps its record, without its input."""
        with_job(error, job_id)
        await self._settlement.end_without_attempt(
            job_id, Ending(Outcome.FAILED, error=as_info(error))
        )
        raise error

    async def _look_for_slot(self, job: LiveJob) -> None:
        try:
            error = await self._course.begin(job)
            if error is not None:
                await self._course.refuse(job, error)
        except BaseException:
            # No caller waits for it any more, or its state is unknown: left to the sweep.
            self._course.abandon(job)
            raise
        if error is not None:
            raise error

    def _attach(self, record: JobRecord, order: JobOrder) -> None:
        if order.on_end is None:
            return
        if record.ended and record.job_id not in self._course.jobs:
            order.on_end(record)
        else:
            self.expect(record, order.on_end, order.on_partial, order.on_progress)

    async def _listen(self, job: LiveJob, order: JobOrder, on_end: OnEnd) -> None:
        """Call back at the end, which may have come already."""
        if self._course.jobs.get(job.job_id) is job:
            job.on_end.append(on_end)
            return
        record = await self._ledger.read(job.job_id)
        if record is None:
            raise errors.DependencyDown(FORGOTTEN.message)
        self._attach(record, order)
