"""Jobs as other instances keep them, and as callers here know them."""

from __future__ import annotations

from dragoman.ids import ConnectionId, InstanceId, JobId, RequestId, TenantId
from dragoman.live.dispatch.job import Job, Seat, Step
from dragoman.live.ledger import JobRecord, JobSpec, Owner, PastAttempt
from dragoman.live.protocol import AttemptState, JobState, Pipeline
from dragoman.live.shared import records as r

NO_OWNER = Owner(InstanceId(""), ConnectionId(""), 0)
"""Of a seat that held an attempt once: what it is now is not known."""


def foreign(stored: r.StoredJob) -> Job:
    """A job that another instance drives, or that has ended, as callers here know it."""
    job = Job(
        stored.spec,
        None,
        stored.body_hash,
        None,  # type: ignore[arg-type]  # it is not placed from here
        None,
        0.0,
        0.0,
        False,
        stored.spec.target_key,
    )
    job.job_id = stored.job_id
    job.created_ms = stored.created_ms
    job.named, job.named_cell = stored.attempt_id, stored.cell
    job.driven = False
    job.driver_instance = stored.instance_id
    job.past = list(stored.past) or None
    job.preemptions = stored.preemptions
    if stored.outcome is not None:
        take_end(job, stored)
    return job


def unread(job_id: JobId) -> Job:
    """A job of which only the id is known here."""
    spec = JobSpec(TenantId(""), RequestId(""), "", "", Pipeline())
    job = Job(spec, None, b"", None, None, 0.0, 0.0, False, "")  # type: ignore[arg-type]
    job.job_id = job_id
    job.driven = False
    return job


def take_end(job: Job, stored: r.StoredJob) -> None:
    """The job has this end, which another instance or an earlier try gave it."""
    let_go(job)
    job.outcome, job.output, job.error = stored.outcome, stored.output, stored.error
    # All that a client is told of it, the same by every instance.
    job.spec = stored.spec
    job.created_ms = stored.created_ms
    job.past = list(stored.past) or None
    job.used = sum(1 for past in stored.past if past.bound and past.counts)
    job.preemptions = stored.preemptions
    job.released = stored.released
    if stored.node_id is None:
        job.finished_ms = stored.times.finished_ms or job.finished_ms
        return
    job.used += 1
    times = stored.times
    job.dispatched_ms, job.accepted_ms = times.dispatched_ms, times.accepted_ms
    job.running_ms, job.finished_ms = times.running_ms, times.finished_ms
    if job.seat is None or job.seat.node_id != stored.node_id:
        job.seat = Seat(stored.node_id, stored.cell, 0, NO_OWNER, 1)


def let_go(job: Job) -> None:
    """The job has its end, and holds no slot and no input any more."""
    job.step = Step.NONE
    job.input = None
    if job.seat is not None:
        # Its own seat: as long as each refers to the other, only the collector frees them.
        job.seat.held.clear()


def record_of(stored: r.StoredJob, attempt: r.StoredAttempt | None = None) -> JobRecord:
    """A stored job as callers are told of it; with the attempt that holds a slot for it, if any."""
    attempts = stored.past
    state, current = JobState.CREATED, None
    if stored.outcome is not None:
        state = JobState.RELEASED if stored.released else JobState.FINISHED
        if stored.node_id is not None:
            attempts += (
                PastAttempt(
                    stored.attempt_id,
                    stored.cell,
                    stored.node_id,
                    outcome=stored.outcome,
                    error=stored.error,
                    times=stored.times,
                ),
            )
    elif attempt is not None and attempt.state is not AttemptState.FINISHED:
        state, current = JobState.DISPATCHED, stored.attempt_id
        attempts += (
            PastAttempt(stored.attempt_id, stored.cell, attempt.node_id, times=attempt.times),
        )
    return JobRecord(
        job_id=stored.job_id,
        spec=stored.spec,
        state=state,
        claimed_by=stored.instance_id,
        created_at_ms=stored.created_ms,
        claim_until_ms=stored.claim_until_ms,
        total_until_ms=stored.total_until_ms,
        attempts=attempts,
        current=current,
        outcome=stored.outcome,
        error=stored.error,
        output=stored.output,
        finished_at_ms=stored.times.finished_ms if stored.outcome is not None else 0,
        preemptions=stored.preemptions,
    )
