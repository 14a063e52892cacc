"""The jobs of one shard in memory: bindings, jobs, their attempts and their one end."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, TenantId, new_job_id
from dragoman.live.ledger import answers as a
from dragoman.live.ledger.asks import Claim, Ending, Keep
from dragoman.live.ledger.memory.due import DueQueue
from dragoman.live.ledger.memory.kept import KeptResults
from dragoman.live.ledger.memory.recent import RecentJobs
from dragoman.live.ledger.records import JobInput, JobRecord, JobSpec, PastAttempt, Times
from dragoman.live.protocol import ErrorInfo, JobResult, JobState, Outcome

RequestKey = tuple[str, str, str]


class Job(msgspec.Struct, kw_only=True, gc=False):
    """A job as the shard holds it: mutable, and never handed out."""

    job_id: JobId
    spec: JobSpec
    input: JobInput | None
    body_hash: bytes
    claimed_by: InstanceId
    created_at_ms: int
    claim_until_ms: int
    total_until_ms: int | None
    batch_time: bool
    """Its time runs from each dispatch, not from the claim."""
    state: JobState = JobState.CREATED
    attempts: list[PastAttempt] = msgspec.field(default_factory=list)
    current: AttemptId | None = None
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    finished_at_ms: int = 0
    lease_until_ms: int = 0
    release_at_ms: int = 0
    forget_at_ms: int = 0
    preemptions: int = 0

    @property
    def ended(self) -> bool:
        return self.state in (JobState.FINISHED, JobState.RELEASED)

    @property
    def due_at_ms(self) -> int:
        if self.state is JobState.FINISHED:
            return self.release_at_ms
        if self.state is JobState.RELEASED:
            return self.forget_at_ms
        total = self.total_until_ms
        if self.current is not None:
            return total if total is not None else self.claim_until_ms
        return self.claim_until_ms if total is None else min(self.claim_until_ms, total)

    def record(self) -> JobRecord:
        return JobRecord(
            job_id=self.job_id,
            spec=self.spec,
            state=self.state,
            claimed_by=self.claimed_by,
            created_at_ms=self.created_at_ms,
            claim_until_ms=self.claim_until_ms,
            total_until_ms=self.total_until_ms,
            attempts=tuple(self.attempts),
            current=self.current,
            outcome=self.outcome,
            error=self.error,
            output=self.output,
            finished_at_ms=self.finished_at_ms,
            preemptions=self.preemptions,
        )


class JobShard:
    """One of the shards that jobs are spread over."""

    def __init__(self, number: int, recent: dict[TenantId, RecentJobs], kept: KeptResults) -> None:
        """recent knows the jobs of all shards, kept their results."""
        self.number = number
        self.jobs: dict[JobId, Job] = {}
        self.bindings: dict[RequestKey, JobId] = {}
        self._recent = recent
        self._kept = kept
        self._due = DueQueue[JobId](self._due_at)

    def claim(
        self, claim: Claim, now_ms: int, random: Random
    ) -> a.Claimed | a.Existing | a.BodyConflict:
        spec = claim.spec
        key = (spec.tenant, spec.request_id, spec.target_key)
        known_id = self.bindings.get(key)
        if known_id is not None:
            known = self.jobs[known_id]
            if not known.ended or known.lease_until_ms > now_ms:
                if known.body_hash != claim.body_hash:
                    return a.BodyConflict(known_id)
                return a.Existing(known.record())
        job = Job(
            job_id=new_job_id(random, self.number),
            spec=spec,
            input=claim.input,
            body_hash=claim.body_hash,
            claimed_by=claim.instance_id,
            created_at_ms=now_ms,
            claim_until_ms=now_ms + claim.claim_ms,
            total_until_ms=None if claim.total_ms is None else now_ms + claim.total_ms,
            batch_time=claim.total_ms is None,
        )
        self.jobs[job.job_id] = job
        self.bindings[key] = job.job_id
        self._recent.setdefault(spec.tenant, RecentJobs()).add((now_ms, job.job_id))
        self._watch(job)
        return a.Claimed(job.job_id, now_ms)

    def bind(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        cell: int,
        node_id: NodeId,
        total_ms: int | None,
        now_ms: int,
    ) -> a.Bound | a.NotBound | a.JobGone:
        job = self.jobs.get(job_id)
        if job is None:
            return a.JobGone()
        if job.ended:
            return a.NotBound(ended=True)
        if job.current == attempt_id:
            return a.Bound(_counted(job.attempts))
        if job.current is not None or any(p.attempt_id == attempt_id for p in job.attempts):
            return a.NotBound(ended=False)
        job.attempts.append(
            PastAttempt(attempt_id, cell, node_id, times=Times(dispatched_ms=now_ms))
        )
        job.current = attempt_id
        job.state = JobState.DISPATCHED
        if job.batch_time and total_ms is not None:
            job.total_until_ms = now_ms + total_ms
            self._watch(job)
        # Else what is due next, the end of its total time, is no sooner than before.
        return a.Bound(_counted(job.attempts))

    def retry(
        self,
        job_id: JobId,
        attempt_id: AttemptId,
        error: ErrorInfo,
        times: Times,
        instance_id: InstanceId | None,
        claim_ms: int,
        preempted: bool,
        now_ms: int,
    ) -> a.Retrying | a.NotCurrent | a.Ended | a.JobGone:
        job = self.jobs.get(job_id)
        if job is None:
            return a.JobGone()
        if job.ended:
            return a.Ended(job.record())
        if job.current != attempt_id:
            if all(past.attempt_id != attempt_id for past in job.attempts):
                job.attempts.append(
                    PastAttempt(attempt_id, -1, NodeId(""), bound=False, error=error)
                )
            return a.NotCurrent(job.record())
        self._close_attempt(job, Ending(Outcome.FAILED, error=error), times, preempted)
        job.state = JobState.CREATED
        job.preemptions += preempted
        job.claimed_by = instance_id or job.claimed_by
        job.claim_until_ms = now_ms + claim_ms
        if job.batch_time:
            job.total_until_ms = None
        self._watch(job)
        return a.Retrying(job.record())

    def end(
        self,
        job_id: JobId,
        attempt_id: AttemptId | None,
        ending: Ending,
        times: Times | None,
        keep: Keep,
        now_ms: int,
    ) -> a.Ended | a.NotCurrent | a.JobGone:
        job = self.jobs.get(job_id)
        if job is None:
            return a.JobGone()
        if job.ended:
            return a.Ended(job.record())
        if job.current != attempt_id:
            return a.NotCurrent(job.record())
        if attempt_id is not None:
            self._close_attempt(job, ending, times or Times(), False)
        job.state = JobState.FINISHED
        job.input = None
        job.outcome, job.output, job.error = ending.outcome, ending.output, ending.error
        job.finished_at_ms = now_ms
        if job.spec.session_id is None:
            # A session counts the results itself that it has yet to deliver.
            self._kept.keep(job_id, ending.output)
        if ending.outcome is Outcome.SUCCESS:
            job.lease_until_ms = now_ms + keep.lease_ms
        else:
            job.lease_until_ms = now_ms
            self._unbind(job)
        job.release_at_ms = now_ms + max(keep.retention_ms, keep.lease_ms)
        job.forget_at_ms = job.release_at_ms + keep.lease_ms
        self._watch(job)
        return a.Ended(job.record())

    def renew(
        self, job_ids: Iterable[JobId], instance_id: InstanceId, claim_ms: int, now_ms: int
    ) -> list[JobId]:
        refused = []
        for job_id in job_ids:
            job = self.jobs.get(job_id)
            if job is None or job.ended or job.claimed_by != instance_id:
                refused.append(job_id)
            elif job.current is None:
                job.claim_until_ms = now_ms + claim_ms
        return refused

    def take_over(
        self, job_id: JobId, instance_id: InstanceId, claim_ms: int, now_ms: int
    ) -> a.Taken | a.StillHeld | a.JobGone:
        job = self.jobs.get(job_id)
        if job is None:
            return a.JobGone()
        if job.ended or job.input is None or job.current is not None:
            return a.StillHeld()
        if job.claim_until_ms > now_ms:
            return a.StillHeld(job.claimed_by)
        job.claimed_by = instance_id
        job.claim_until_ms = now_ms + claim_ms
        return a.Taken(job.record(), job.input)

    def release(self, job_ids: Iterable[JobId], now_ms: int) -> None:
        for job_id in job_ids:
            job = self.jobs.get(job_id)
            if job is not None and job.state is JobState.FINISHED:
                job.release_at_ms = min(job.release_at_ms, job.lease_until_ms)
                self._kept.keep(job_id, job.output, delivered=_is_named_by_session(job.spec))
                self._release_if_time(job, now_ms)

    def release_early(self, job_id: JobId, now_ms: int, *, within_lease: bool) -> bool:
        """Let go of a result before its retention ends; False when its lease still holds it."""
        job = self.jobs[job_id]
        if not within_lease and job.lease_until_ms > now_ms:
            return False
        job.release_at_ms = now_ms
        self._release_if_time(job, now_ms)
        return True

    def due(self, now_ms: int, limit: int) -> list[JobRecord]:
        found = []
        for job_id in self._due.due(now_ms, limit):
            job = self.jobs[job_id]
            if not job.ended:
                found.append(job.record())
                continue
            self._release_if_time(job, now_ms)
            if job.state is JobState.RELEASED and job.forget_at_ms <= now_ms:
                self._forget(job)
        return found

    # --- inside ----------------------------------------------------------------------------------

    def _due_at(self, job_id: JobId) -> int | None:
        job = self.jobs.get(job_id)
        return job.due_at_ms if job else None

    def _watch(self, job: Job) -> None:
        self._due.watch(job.job_id, job.due_at_ms)

    def _close_attempt(self, job: Job, ending: Ending, times: Times, preempted: bool) -> None:
        for position in range(len(job.attempts) - 1, -1, -1):
            past = job.attempts[position]
            if past.attempt_id == job.current:
                job.attempts[position] = PastAttempt(
                    past.attempt_id,
                    past.cell,
                    past.node_id,
                    counts=not preempted,
                    outcome=ending.outcome,
                    error=ending.error,
                    times=times,
                )
                break
        job.current = None

    def _release_if_time(self, job: Job, now_ms: int) -> None:
        if job.state is JobState.FINISHED and job.release_at_ms <= now_ms:
            job.state = JobState.RELEASED
            job.output = None
            self._kept.drop(job.job_id)
            self._unbind(job)
        self._watch(job)

    def _unbind(self, job: Job) -> None:
        key = (job.spec.tenant, job.spec.request_id, job.spec.target_key)
        if self.bindings.get(key) == job.job_id:
            del self.bindings[key]

    def _forget(self, job: Job) -> None:
        del self.jobs[job.job_id]
        self._due.forget(job.job_id)
        recent = self._recent[job.spec.tenant]
        recent.remove((job.created_at_ms, job.job_id))
        if not recent:
            del self._recent[job.spec.tenant]


def _is_named_by_session(spec: JobSpec) -> bool:
    """Whether the scheduler named the request: then no caller can make it again."""
    return spec.session_id is not None and spec.request_id.startswith(f"{spec.session_id}/")


def _counted(attempts: list[PastAttempt]) -> int:
    return sum(1 for past in attempts if past.bound and past.counts)
