"""The one entry for jobs: sessions, `POST /jobs` and experiments all come in here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from math import inf
from random import Random
from typing import Any

import msgspec

from dragoman import errors
from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId
from dragoman.live.budget import ByteBudget
from dragoman.live.dispatch.background import Background
from dragoman.live.dispatch.canary import Canaries
from dragoman.live.dispatch.cluster.ledger import ClusterLedger
from dragoman.live.dispatch.cluster.peers import PeerMessages
from dragoman.live.dispatch.cluster.ports import PeerPort, Share
from dragoman.live.dispatch.cluster.remote import ClusterNodes, RemoteAttempts
from dragoman.live.dispatch.cluster.stored_jobs import foreign, record_of, unread
from dragoman.live.dispatch.cluster.sweeps import ClusterSweeps, total_until, waited_since
from dragoman.live.dispatch.cluster.watcher import RemoteJobWatcher
from dragoman.live.dispatch.driver import CANCELLED, FORGOTTEN, DriverTerms, JobDriver, Nodes
from dragoman.live.dispatch.explain import Explanations
from dragoman.live.dispatch.history import JobHistory
from dragoman.live.dispatch.job import (
    Job,
    JobOrder,
    OnEnd,
    OnPartial,
    OnProgress,
    OnRecord,
    Stop,
    attempt_state,
    body_hash,
    forget_waiters,
    pairs_of,
)
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.dispatch.node_messages import LeftAttempts, NodeMessages
from dragoman.live.dispatch.ports import Glossary, TenantCounts
from dragoman.live.dispatch.refusals import as_info, refusal
from dragoman.live.dispatch.routes import Routes
from dragoman.live.dispatch.selection import SelectionRules, Selector
from dragoman.live.dispatch.sweeps import Sweeps
from dragoman.live.dispatch.telemetry import CatalogPort, DispatchTelemetry, Tally
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.ledger import JobInput, JobRecord, JobSpec
from dragoman.live.protocol import (
    AttemptState,
    ExplainView,
    JobClass,
    JobResult,
    Outcome,
    ServiceType,
)
from dragoman.live.shared import records as r
from dragoman.live.snapshot import JobRequirement, Requirements, SnapshotHolder
from dragoman.observability import LimitWatch, Metrics, Tracing

_NO_ROOM_RETRY_MS = 1_000


class Submitted(msgspec.Struct, frozen=True):
    """A job for an order: made by this call, or found."""

    job_id: JobId
    created: bool


class JobDispatcher:
    """Creates jobs, finds them nodes, and brings them to their end."""

    def __init__(
        self,
        *,
        ledger: MemoryLedger | ClusterLedger,
        snapshots: SnapshotHolder,
        nodes: Nodes,
        terms: DriverTerms,
        selection: SelectionRules,
        inflight_per_tenant: int,
        explain_max: int,
        routes: int,
        metrics: Metrics,
        watch: LimitWatch,
        catalog: CatalogPort,
        clock: Clock,
        random: Random,
        budget: ByteBudget,
        instance_id: InstanceId,
        tracing: Tracing | None = None,
        peers: PeerPort | None = None,
        share: Callable[[], Share] = Share,
        tenant_jobs: TenantCounts[JobId] | None = None,
        cold: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """peers reaches the other instances, where the ledger is one that they share; share is
        this instance's part of what all of them see to. cold names the cells that are known to
        have lost their memory."""
        self._ledger = ledger
        self._snapshots = snapshots
        self._clock = clock
        self._budget = budget
        self.total_seconds = terms.total_seconds
        self._pending_seconds = terms.pending_seconds
        self._requirements = Requirements(snapshots.current.rule)
        self._tracing = tracing
        self.routes = Routes(routes)
        self.tally = Tally(metrics, clock)
        self._explanations = Explanations(explain_max)
        self._tenants = TenantJobs(inflight_per_tenant, tenant_jobs)
        self.history = JobHistory(clock)
        self._telemetry = DispatchTelemetry(metrics, self.tally, tracing, catalog, self.history)
        canaries = Canaries(selection.canaries, self._requirements, random)
        self._selector = Selector(snapshots, selection, random, canaries)
        far: ClusterNodes | None = None
        if peers is not None:
            nodes = far = ClusterNodes(nodes, peers, instance_id)
        self._driver = JobDriver(
            ledger=ledger,
            selector=self._selector,
            canaries=canaries,
            nodes=nodes,
            telemetry=self._telemetry,
            explanations=self._explanations,
            tenants=self._tenants,
            budget=budget,
            terms=terms,
            clock=clock,
            random=random,
            slow=watch.path_took,
        )
        self._background = Background(at_once=isinstance(ledger, MemoryLedger))
        self.spawn = self._background.spawn
        self.peer_messages: PeerMessages | None = None
        """Takes what other instances say; None: there are none."""
        self._watcher: RemoteJobWatcher | None = None
        self._remote: RemoteAttempts | None = None
        self.upkeep: Sweeps | ClusterSweeps
        if isinstance(ledger, MemoryLedger):
            left = LeftAttempts(ledger, self._driver, self._telemetry)
            self.events = NodeMessages(self._driver, left, self._telemetry, ledger.origin_ms, clock)
            self.upkeep = Sweeps(ledger, self._driver, nodes, watch, clock)
        else:
            assert peers is not None, "a shared ledger is shared with others"
            assert far is not None, "others have nodes, too"
            self._join(ledger, peers, far, share, cold, instance_id, watch)
            if selection.prefer_local:
                ledger.placer.near = self._here
                self._explanations.local_first = True
        self._draining = False
        metrics.pending_jobs.set_function(lambda: len(self._driver.pending))

    def _join(
        self,
        ledger: ClusterLedger,
        peers: PeerPort,
        nodes: ClusterNodes,
        share: Callable[[], Share],
        cold: Callable[[], Collection[int]],
        instance_id: InstanceId,
        watch: LimitWatch,
    ) -> None:
        """Work beside other instances."""
        driver, clock = self._driver, self._clock
        nodes.attempts = driver.attempts
        placer = ledger.placer
        placer.driven, placer.tenants = driver.jobs, self._tenants
        remote = RemoteAttempts(
            ledger, driver, nodes.here, peers, self._telemetry, instance_id, self.spawn
        )
        ledger.on_freed = driver.on_freed = remote.freed
        placer.gave_way, placer.is_over = remote.gave_way, remote.is_over
        watcher = self._watcher = RemoteJobWatcher(ledger, peers, remote, instance_id)
        driver.watch = watcher.watch
        driver.cold = cold
        placer.knows, placer.took = self._knows, watch.path_took
        self._remote = remote
        self.events = NodeMessages(
            driver, remote, self._telemetry, ledger.origin_ms, clock, remote.driven_step
        )
        self.peer_messages = PeerMessages(ledger, driver, remote, watcher, peers, clock, self.spawn)
        self.upkeep = ClusterSweeps(
            ledger=ledger,
            driver=driver,
            nodes=nodes,
            remote=remote,
            watcher=watcher,
            peers=peers,
            share=share,
            revive=self._revive,
            present=peers.present,
            own_cells=nodes.here.own_cells,
            instance_id=instance_id,
            watch=watch,
            clock=clock,
        )

    def services_of(self, job: Job) -> Mapping[ServiceType, str]:
        """What does each kind of work on the job's node, as ``service_id[@version]``: the service
        that the job names, or the first that runs."""
        seat = job.seat
        view = self._snapshots.current.cells.get(seat.cell) if seat is not None else None
        if seat is None or view is None:
            return {}
        facts = view.nodes.get(seat.index)
        if facts is None or facts.node_id != seat.node_id:
            return {}
        wanted = job.canary if job.on_canary and job.canary is not None else job.requirement
        return view.services_of(seat.index, wanted.services)

    def _knows(self, cell: int, index: int, node_id: NodeId) -> bool:
        """Whether a seat is the node's that it was taken for."""
        view = self._snapshots.current.cells.get(cell)
        return view is not None and view.indexes.get(node_id) == index

    def _here(self, cell: int) -> int:
        """The seats of a cell whose nodes are connected to this instance."""
        view = self._snapshots.current.cells.get(cell)
        return view.here if view is not None else 0

    def _revive(self, work: r.OpenWork, now: float) -> Job:
        """A job that another instance drove, as it goes on here."""
        stored = work.job
        job = self.job(stored.spec, work.input, now)
        if stored.spec.session_id:
            job.route = self.routes.of(stored.spec.session_id)
        job.may_wait = True
        job.job_id = stored.job_id
        job.created_ms = stored.created_ms
        job.named, job.named_cell = stored.attempt_id, stored.cell
        job.claimed = now
        job.past = list(stored.past) or None
        job.used = sum(1 for past in stored.past if past.bound and past.counts)
        job.preemptions = stored.preemptions
        assert isinstance(self._ledger, ClusterLedger), "only a shared job is revived"
        claim_ms = self._ledger.terms.claim_ms
        job.total_until = total_until(work, claim_ms, now)
        if not job.is_batch:
            job.pending_until = waited_since(work, claim_ms, now) + self._pending_seconds
        return job

    # --- jobs -----------------------------------------------------------------------------------

    def requirement(self, spec: JobSpec) -> JobRequirement:
        """What the job asks of a node; equal demands have the same one."""
        return self._requirements.of(pairs_of(spec), spec.pipeline, spec.features, spec.services)

    def job(self, spec: JobSpec, job_input: JobInput, now: float) -> Job:
        """A job that is not submitted yet; `start` does that."""
        job = Job(
            spec,
            job_input,
            body_hash(spec, job_input),
            self.requirement(spec),
            None,
            now,
            now,
            False,
            spec.target_key,
        )
        if spec.job_class is not JobClass.BATCH:
            job.total_until = now + self.total_seconds
        if spec.exclude_node_id is not None:
            job.excluded = frozenset((spec.exclude_node_id,))
        return job

    def make(self, order: JobOrder, now: float) -> Job:
        """The job of an order."""
        spec = order.spec
        job = self.job(spec, order.input, now)
        if spec.session_id:
            job.route = self.routes.of(spec.session_id)
        if order.began is not None:
            job.began = order.began
        # Batch work waits for slots, but not for a pair or a feature that no node has.
        job.may_wait = order.may_wait and spec.job_class is not JobClass.BATCH
        job.on_partial = order.on_partial
        job.on_progress = order.on_progress
        job.parent_span = order.parent_span
        return job

    def start(self, job: Job, now: float) -> None:
        """Submit a job. `job.on_submitted` and `job.on_end` tell the rest."""
        if self._draining:
            raise errors.ServerDraining("This server is shutting down; ask another one.")
        rate = self.tally.rate
        if now >= rate.second_ends:
            rate.begin_second(now)
        rate.current[1] += 1
        if self._tenants.limited or job.spec.session_id is None:
            self._check_limits(job)
        self._driver.submit(job, now)

    def stop_job(self, job: Job, stop: Stop) -> None:
        """End a job, whatever its attempt does."""
        self._driver.stop(job, stop, self._clock.monotonic())

    def watch_successes(self, on_success: Callable[[Job], None]) -> None:
        """Tell of each job that its node has done, while its input is still there.

        The end comes right after it, and need not be a success: `expect_job` tells of that.
        """
        self._driver.on_success = on_success

    def count_usage(self, count: Callable[[Job, JobResult, float], None]) -> None:
        """Tell of each job that its node has done, with its input, its result and the time."""
        self._driver.count_usage = count

    def use_glossaries(self, by_tenant: Mapping[TenantId, Glossary]) -> None:
        """Tell nodes the words of each job's tenant, as they are when the node is told."""
        self._driver.glossaries = by_tenant

    def expect_job(self, job: Job, on_end: OnEnd) -> None:
        """Call back when the job has ended; at once when it has."""
        self._driver.expect(job, on_end)

    async def submit(self, order: JobOrder) -> Submitted:
        """Make the order's job, or find it when it was made before.

        Raises the refusal when no node takes the job and it may not wait; its on_end is then
        never called.
        """
        now = self._clock.monotonic()
        job = self.make(order, now)
        on_record = order.on_end
        if on_record is not None:
            job.on_end = [self._told_as_record(on_record)]
            job.submitter_waits = True
        outcome: list[tuple[Job, errors.DragomanError | None]] = []
        job.on_submitted = lambda known, error: outcome.append((known, error))
        try:
            self.start(job, now)
        except errors.DragomanError:
            forget_waiters(job)
            raise
        if not outcome:
            await self._answered(job, outcome)
        known, error = outcome[0]
        if error is not None:
            raise error
        return Submitted(known.job_id, created=known is job)

    @staticmethod
    async def _answered(job: Job, outcome: list[tuple[Job, errors.DragomanError | None]]) -> None:
        """Wait for a ledger that does not answer at once."""
        answered = asyncio.Event()

        def told(known: Job, error: errors.DragomanError | None) -> None:
            outcome.append((known, error))
            answered.set()

        job.on_submitted = told
        await answered.wait()

    def check_served(self, spec: JobSpec) -> int:
        """How many nodes could carry such a job, slots aside; raises the refusal if none could.

        Nothing is made and nothing is reserved.
        """
        now = self._clock.monotonic()
        search = self._selector.search(self.job(spec, JobInput(), now), now)
        for _ in search.rounds:
            pass
        search.vain()
        wanted = search.main
        fit = sum(wanted.candidates(view, spare_resting=False).bit_count() for view in wanted.views)
        if not fit:
            raise refusal(search, None, self._driver.cold())
        return fit

    async def cancel(self, job_id: JobId) -> JobRecord:
        """End a job for its owner; raises JobEnded when it has its end already."""
        job = await self._find(job_id)
        if job is None:
            raise errors.NotFound(f"There is no job {job_id}.")
        if job.outcome is None and not job.driven:
            return await self._cancel_elsewhere(job)
        if job.outcome is None:
            stop = Stop(Outcome.CANCELLED, CANCELLED)
            self._driver.stop(job, stop, self._clock.monotonic())
            if job.outcome is None:
                # The ledger works on it, and its answer may be another end.
                ended = asyncio.Event()
                self._driver.expect(job, lambda job: ended.set())
                await ended.wait()
            if job.error is CANCELLED:
                return self._ledger.record(job)
        raise errors.JobEnded(f"Job {job_id} has ended: {job.outcome}.")

    async def read(self, job_id: JobId) -> tuple[JobRecord, AttemptState | None] | None:
        """A job, and the state of its current attempt."""
        job = self._driver.jobs.get(job_id)
        ledger = self._ledger
        if isinstance(ledger, MemoryLedger):
            job = ledger.find(job_id)
        elif job is None or ledger.is_far(job):
            # Its steps are told to the instance that has its node.
            return await ledger.read_whole(job_id)
        return None if job is None else (ledger.record(job), attempt_state(job))

    def explain(self, job_id: JobId) -> ExplainView | None:
        """How the job's nodes were chosen, and whether it waits; None when nothing is kept."""
        job = self._driver.jobs.get(job_id)
        waiting = self._driver.pending.view(job) if job is not None and job.waiting else None
        found = self._explanations.of(job_id, waiting)
        if found is None and job is not None:
            return ExplainView(job_id, (), None)
        return found

    async def ended(self, job_id: JobId, seconds: float) -> JobRecord | None:
        """Wait for a job's end; None when it takes longer."""
        job = await self._find(job_id)
        if job is None:
            return None
        if job.outcome is not None:
            return self._ledger.record(job)
        if self._watcher is not None and not job.driven:
            job = self._watcher.watch(job)
        end: asyncio.Future[JobRecord] = asyncio.get_running_loop().create_future()

        def told(ended: Job) -> None:
            if not end.done():
                end.set_result(self._ledger.record(ended))

        self._driver.expect(job, told)
        try:
            return await asyncio.wait_for(end, seconds)
        except TimeoutError:
            return None
        finally:
            _forget(job, told)

    def expect(
        self,
        record: JobRecord,
        on_end: OnRecord,
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Call back, once, when a job has ended."""
        job = self._known(record.job_id)
        if job is None:
            return
        self._driver.expect(job, self._told_as_record(on_end))
        if job.outcome is None and (on_partial is not None or on_progress is not None):
            job.on_partial, job.on_progress = on_partial, on_progress

    def expect_no_more(self, job_id: JobId, on_end: OnRecord) -> None:
        """Call back no more."""
        job = self._known(job_id)
        for known in list(job.on_end or ()) if job is not None else ():
            if job is not None and getattr(known, "on_record", None) == on_end:
                _forget(job, known)

    async def placed(self, job_id: JobId, seconds: float) -> None:
        """Wait until a job that gets the slot of another has its node, or has ended."""
        job = self._driver.jobs.get(job_id)
        if job is None or job.heir_until == inf:
            return
        placed = asyncio.Event()
        job.on_placed = [*(job.on_placed or ()), placed.set]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await placed.wait()

    def not_told(self, attempt_id: AttemptId) -> None:
        """The instance that an attempt's node is connected to surely was not reached."""
        self._driver.not_told(attempt_id)

    # --- other instances ------------------------------------------------------------------------

    def attempts_at(self, node_id: NodeId) -> list[Job]:
        """The jobs of this instance whose attempt is at the node now, the longest there first."""
        out = self._driver.attempts.values()
        found = [job for job in out if job.seat is not None and job.seat.node_id == node_id]
        return sorted(found, key=lambda job: job.dispatched_ms)

    def drives(self, job_id: JobId) -> bool:
        """Whether this instance sees to the job's end."""
        return job_id in self._driver.jobs

    def counts(self) -> dict[str, int]:
        """How many jobs this instance drives, and how many of them wait."""
        return {
            "jobs": len(self._driver.jobs),
            "attempts": len(self._driver.attempts),
            "waiting": len(self._driver.pending),
            "looked_out_for": len(self._watcher) if self._watcher is not None else 0,
        }

    def drain(self) -> None:
        """Take no new work; what is under way goes on. Batch jobs that wait are let go of."""
        self._draining = True
        for job in self._driver.pending.waiting_batch():
            self._driver.abandon(job)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something at once as far as it gets; what is left goes on beside."""
        self._background.run(work)

    async def wait_idle(self) -> None:
        """Wait until no job is under way."""
        await self._driver.idle.wait()

    async def stop(self) -> None:
        self._driver.close()
        await self._background.stop()
        if self._remote is not None:
            await self._remote.steps.stop()

    # --- jobs of other instances ----------------------------------------------------------------

    def watch(
        self,
        job_id: JobId,
        then: Callable[[Job | None], None],
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Call back when a job has ended, wherever it is driven; with None when it was lost."""

        def on_end(job: Job) -> None:
            then(None if job.error is FORGOTTEN else job)

        job = self._driver.jobs.get(job_id)
        if job is not None:
            self._driver.expect(job, on_end)
        else:
            assert self._watcher is not None, "alone, every job is driven here"
            ledger = self._ledger
            assert isinstance(ledger, ClusterLedger), "a watcher watches shared jobs"
            job = unread(job_id)
            job.on_end = [on_end]
            job.on_partial, job.on_progress = on_partial, on_progress
            self._watcher.watch(job)
            self.spawn(self._watcher.told(job_id, ask=True))
            return
        if job.outcome is None:
            job.on_partial, job.on_progress = on_partial, on_progress

    async def find_ended(self, job_ids: Iterable[JobId]) -> dict[JobId, Job]:
        """Those of the jobs that have ended and are remembered."""
        found = await asyncio.gather(*map(self._find, job_ids))
        return {job.job_id: job for job in found if job is not None and job.outcome is not None}

    def _known(self, job_id: JobId) -> Job | None:
        if isinstance(self._ledger, MemoryLedger):
            return self._ledger.find(job_id)
        job = self._driver.jobs.get(job_id)
        if job is None and self._watcher is not None:
            job = self._watcher.jobs.get(job_id)
        return job

    async def _find(self, job_id: JobId) -> Job | None:
        job = self._known(job_id)
        if job is not None or isinstance(self._ledger, MemoryLedger):
            return job
        stored = await self._ledger.shared.read(job_id)
        return foreign(stored) if stored is not None else None

    async def _cancel_elsewhere(self, job: Job) -> JobRecord:
        """End a job that another instance drives, whatever its attempt does."""
        ledger = self._ledger
        assert isinstance(ledger, ClusterLedger), "others share the ledger"
        assert self._remote is not None, "others have attempts"
        cancelled = await ledger.cancel_elsewhere(job, CANCELLED)
        if cancelled is None:
            ended = await ledger.shared.read(job.job_id)
            outcome = ended.outcome if ended is not None else None
            raise errors.JobEnded(f"Job {job.job_id} has ended: {outcome}.")
        stored, attempt = cancelled
        self._remote.cancelled_elsewhere(stored, attempt)
        return record_of(stored)

    # --- inside ---------------------------------------------------------------------------------

    def _check_limits(self, job: Job) -> None:
        """Mark a job that may not be tried. Only a new one is refused: a repeat finds its job."""
        refused: errors.DragomanError | None = None
        if job.spec.session_id is None and not self._budget.has_room(job.kept_bytes):
            # Sessions see to their own input themselves.
            refused = errors.RateLimited(
                "This server keeps as many bytes for others as limits.buffered_bytes allows;"
                " send the job again later, or to another server.",
                retry_after_ms=_NO_ROOM_RETRY_MS,
            )
        elif self._tenants.limited and isinstance(self._ledger, MemoryLedger):
            refused = self._tenants.refusal_now(job.spec.tenant)
        if refused is not None:
            job.refusal = refused
            job.stop = Stop(Outcome.FAILED, as_info(refused))

    def _told_as_record(self, on_end: OnRecord) -> OnEnd:
        def told(job: Job) -> None:
            on_end(self._ledger.record(job))

        told.on_record = on_end  # type: ignore[attr-defined]
        return told


def _forget(job: Job, on_end: OnEnd) -> None:
    if job.on_end is not None and on_end in job.on_end:
        job.on_end.remove(on_end)
