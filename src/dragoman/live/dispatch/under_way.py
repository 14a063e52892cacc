"""The jobs that this instance drives, until they end or others drive them."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.budget import Budget
from dragoman.live.dispatch.forgotten import forgotten
from dragoman.live.dispatch.inheritance import Inheritances
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.lookout import Lookout
from dragoman.live.dispatch.ports import PeerPort
from dragoman.live.dispatch.reception import Reception
from dragoman.live.dispatch.sightings import Sightings
from dragoman.live.dispatch.tenants import TenantJobs
from dragoman.live.ledger import JobRecord
from dragoman.live.protocol import JobState


class UnderWay:
    """Knows the jobs and their attempts, and tells their waiters when one is over."""

    def __init__(
        self,
        *,
        reception: Reception,
        inheritances: Inheritances,
        lookout: Lookout,
        sightings: Sightings,
        tenants: TenantJobs,
        instance_id: InstanceId,
        clock: Clock,
        peers: PeerPort | None,
        budget: Budget,
    ) -> None:
        self.jobs: dict[JobId, LiveJob] = {}
        self.attempts: dict[AttemptId, LiveJob] = {}
        self.idle = asyncio.Event()
        """Set while no job is under way."""
        self.idle.set()
        self._reception = reception
        self._inheritances = inheritances
        self._lookout = lookout
        self._sightings = sightings
        self._tenants = tenants
        self._instance_id = instance_id
        self._clock = clock
        self._peers = peers
        self._budget = budget

    def enter(self, job: LiveJob) -> None:
        """This instance drives the job from now on."""
        if job.job_id not in self.jobs:
            self._tenants.entered(job.tenant, job.job_id)
            self._budget.change(job.kept_bytes)
        self.jobs[job.job_id] = job
        self.idle.clear()

    def ended(self, record: JobRecord) -> None:
        """The job has its end: every waiter is told, once."""
        job = self.jobs.pop(record.job_id, None)
        if self._lookout:
            self._lookout.told(record)
        if job is None:
            if self._peers is not None and record.claimed_by != self._instance_id:
                self._peers.ended(record.job_id, record.claimed_by)
            return
        self._tenants.ended(job.tenant, job.job_id)
        self._budget.change(-job.kept_bytes)
        self._forget(job)
        self._inheritances.renounce(job)
        self._sightings.ended(job, record)
        for callback in job.on_end:
            callback(record)

    def gone(self, job: LiveJob) -> None:
        """The ledger lost the job: its waiters are told, though nothing is stored."""
        now_ms = self._clock.now_ms()
        known = JobRecord(
            job_id=job.job_id,
            spec=job.spec,
            state=JobState.CREATED,
            claimed_by=self._instance_id,
            created_at_ms=now_ms - int((self._clock.monotonic() - job.started) * 1000),
            claim_until_ms=now_ms,
            total_until_ms=None,
        )
        self.ended(forgotten(known, now_ms))

    def abandon(self, job: LiveJob) -> None:
        """Drive the job no more. Its claim runs out, and a sweep takes it up or ends it."""
        if self.jobs.pop(job.job_id, None) is not None:
            self._tenants.abandoned(job.tenant, job.job_id)
            self._budget.change(-job.kept_bytes)
            if job.trace is not None:
                job.trace.end("ABANDONED")
        self._forget(job)

    def hand_on(self, job: LiveJob, record: JobRecord) -> None:
        """Another instance drives the job now; waiters here are still told of its end."""
        for on_end in job.on_end:
            self._lookout.expect(record, on_end, job.on_partial, job.on_progress)
        self.abandon(job)

    def let_go(self, job: LiveJob) -> None:
        """The attempt that was out is over, whatever became of it."""
        if job.attempt is not None:
            self.attempts.pop(job.attempt.attempt_id, None)
            job.attempt = None

    def _forget(self, job: LiveJob) -> None:
        job.ended = True
        job.placed()
        self.let_go(job)
        if job.waiting:
            self._reception.leave(job)
        if not self.jobs:
            self.idle.set()
