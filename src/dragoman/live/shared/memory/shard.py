"""One shard in memory: sessions, and the jobs of their utterances and of other requests.

Every method is one atomic step: it is told the time and never waits. What has run out by that
time is gone before the step begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.ids import AttemptId, ConnectionId, InstanceId, JobId, NodeId, SessionId, TenantId
from dragoman.live.ledger import (
    DueQueue,
    Ending,
    JobInput,
    JobSpec,
    Keep,
    PastAttempt,
    RecentJobs,
    Times,
)
from dragoman.live.protocol import ErrorInfo, JobResult, Outcome
from dragoman.live.shared import records as r
from dragoman.live.shared.memory.session import ShardSession

Request = tuple[TenantId, str, str]
"""A tenant, its request_id, and the target."""


class ShardJob(msgspec.Struct, kw_only=True):
    """A job as the shard holds it: mutable, and never handed out."""

    job_id: JobId
    request: Request
    spec: JobSpec
    input: JobInput | None
    """None once the job has ended."""
    body_hash: bytes
    instance_id: InstanceId
    attempt_id: AttemptId
    cell: int
    created_ms: int
    moved_ms: int
    """When the attempt was named."""
    claim_until_ms: int
    total_until_ms: int | None
    past: list[PastAttempt] = msgspec.field(default_factory=list)
    preemptions: int = 0
    outcome: Outcome | None = None
    error: ErrorInfo | None = None
    output: JobResult | None = None
    node_id: NodeId | None = None
    times: Times = Times()
    bound_until_ms: int = 0
    """Until when the ended job answers its request."""
    release_at_ms: int = 0
    forget_at_ms: int = 0

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def look_at_ms(self) -> int:
        """When an open job must be looked at."""
        if self.total_until_ms is None:
            return self.claim_until_ms
        return min(self.claim_until_ms, self.total_until_ms)

    @property
    def expires_at_ms(self) -> int:
        """When the payload of an ended job goes, and then the job."""
        return self.forget_at_ms if self.output is None else self.release_at_ms

    def record(self, now_ms: int) -> r.StoredJob:
        released = self.ended and self.release_at_ms <= now_ms
        return r.StoredJob(
            job_id=self.job_id,
            spec=self.spec,
            body_hash=self.body_hash,
            instance_id=self.instance_id,
            attempt_id=self.attempt_id,
            cell=self.cell,
            created_ms=self.created_ms,
            claim_until_ms=self.claim_until_ms,
            total_until_ms=self.total_until_ms,
            past=tuple(self.past),
            preemptions=self.preemptions,
            outcome=self.outcome,
            error=self.error,
            output=None if released else self.output,
            node_id=self.node_id,
            times=self.times,
            released=released,
        )


class Shard:
    """One of the shards that sessions and jobs are spread over."""

    def __init__(
        self, recent: dict[TenantId, RecentJobs], keep_delivered: int, session_ms: int
    ) -> None:
        """recent knows the jobs of all shards."""
        self.jobs: dict[JobId, ShardJob] = {}
        self.requests: dict[Request, JobId] = {}
        self.sessions: dict[SessionId, ShardSession] = {}
        self._recent = recent
        self._keep_delivered = keep_delivered
        self._session_ms = session_ms
        self._open_due: DueQueue[JobId] = DueQueue(self._look_at)
        self._ended_due: DueQueue[JobId] = DueQueue(self._job_expires_at)
        self._sessions_due: DueQueue[SessionId] = DueQueue(self._session_expires_at)

    # --- a job's life ---------------------------------------------------------------------------

    def open(self, opening: r.UtteranceOpening, now_ms: int) -> r.Opened | r.Behind | r.NotOwner:
        if opening.held is None:
            answers = tuple(
                self._found(job, self._bound(job, now_ms), now_ms)
                or self._make(job, opening, now_ms)
                for job in opening.jobs
            )
            return r.Opened(now_ms, answers)
        session = self._session_held(opening.held)
        if isinstance(session, r.NotOwner):
            return session
        found = [self._found(job, self._known(job), now_ms) for job in opening.jobs]
        if opening.index == session.next_index:
            return self._open_next(opening, session, found, now_ms)
        again = [answer for answer in found if answer is not None]
        if opening.index > session.next_index or len(again) < len(found):
            return r.Behind(session.next_index, session.next_chunk_seq)
        return r.Opened(now_ms, tuple(again), session.revision)

    def move(self, move: r.Move, now_ms: int) -> r.MovedOn | r.NotCurrent | r.HasEnded | r.NoJob:
        job = self._current(move.job_id, None, now_ms)
        if not isinstance(job, ShardJob):
            return job
        if job.attempt_id == move.attempt_id:
            return r.MovedOn(job.moved_ms)
        if job.attempt_id != move.seen:
            return r.NotCurrent(job.record(now_ms))
        if move.ended is not None:
            job.past.append(move.ended)
        job.preemptions += move.preempted
        job.attempt_id, job.cell, job.moved_ms = move.attempt_id, move.cell, now_ms
        job.instance_id = move.instance_id
        job.claim_until_ms = now_ms + move.claim_ms
        if move.total_ms is not None:
            job.total_until_ms = now_ms + move.total_ms
        self._open_due.watch(job.job_id, job.look_at_ms)
        return r.MovedOn(now_ms)

    def close(
        self, closing: r.Closing, now_ms: int
    ) -> r.Closed | r.NotCurrent | r.HasEnded | r.NoJob:
        job = self._current(closing.job_id, closing.attempt_id, now_ms)
        if not isinstance(job, ShardJob):
            return job
        self._end(job, closing.ending, closing.keep, now_ms)
        job.node_id, job.times = closing.node_id, closing.times
        if closing.last is not None:
            job.past.append(closing.last)
        session = self._session_held(closing.held) if closing.held is not None else None
        if not isinstance(session, ShardSession):
            return r.Closed(now_ms)
        seq = session.deliver((closing.delivery,))[0] if closing.delivery is not None else None
        self._keep_session(session, now_ms)
        return r.Closed(now_ms, seq or None, session.revision)

    def renew(
        self, job_ids: Iterable[JobId], instance_id: InstanceId, claim_ms: int, now_ms: int
    ) -> list[JobId]:
        lost = []
        for job_id in job_ids:
            job = self.jobs.get(job_id)
            if job is None or job.ended or job.instance_id != instance_id:
                lost.append(job_id)
            else:
                job.claim_until_ms = max(job.claim_until_ms, now_ms + claim_ms)
        return lost

    def take_over(
        self, job_id: JobId, seen: AttemptId, instance_id: InstanceId, claim_ms: int, now_ms: int
    ) -> r.TakenOver | r.StillDriven | r.NotCurrent | r.HasEnded | r.NoJob:
        job = self._current(job_id, seen, now_ms)
        if not isinstance(job, ShardJob):
            return job
        if job.claim_until_ms <= now_ms:
            job.instance_id = instance_id
            job.claim_until_ms = now_ms + claim_ms
        elif job.instance_id != instance_id:
            return r.StillDriven(job.record(now_ms))
        return r.TakenOver(_work(job, now_ms))

    def release(self, job_ids: Iterable[JobId], now_ms: int) -> None:
        for job_id in job_ids:
            job = self.jobs.get(job_id)
            if job is not None and job.ended:
                job.release_at_ms = min(job.release_at_ms, max(job.bound_until_ms, now_ms))
                self._ended_due.watch(job_id, job.expires_at_ms)

    def read_open(self, job_id: JobId, now_ms: int) -> r.OpenWork | None:
        job = self.jobs.get(job_id)
        return _work(job, now_ms) if job is not None and not job.ended else None

    def due(self, limit: int, now_ms: int) -> tuple[r.StoredJob, ...]:
        names = self._open_due.due(now_ms, limit)
        return tuple(self.jobs[job_id].record(now_ms) for job_id in names)

    # --- a session's life -----------------------------------------------------------------------

    def restore_session(self, record: r.StoredSession, now_ms: int) -> int:
        known = self.sessions.get(record.session_id)
        if known is None or known.is_older_than(record):
            before = known.before if known is not None and known.owner == record.owner else None
            session = ShardSession(record, self._keep_delivered, before)
            session.past = known.past if known is not None else b""
            self._keep_session(session, now_ms)
            return record.revision
        same = known.owner == record.owner and known.revision == record.revision
        return record.revision if same else 0

    def take_session(
        self,
        session_id: SessionId,
        instance_id: InstanceId,
        connection_id: ConnectionId,
        epoch: int | None,
        now_ms: int,
    ) -> r.TakenSession | r.ChangedHands | None:
        session = self.sessions.get(session_id)
        if session is None:
            return None
        owner = session.owner
        if (owner.instance_id, owner.connection_id) != (instance_id, connection_id):
            if epoch is not None and owner.epoch != epoch:
                return r.ChangedHands()
            session.take(instance_id, connection_id)
            self._keep_session(session, now_ms)
        return r.TakenSession(session.record(), session.before)

    def deliver(
        self, held: r.Holding, entries: Sequence[r.Delivery], now_ms: int
    ) -> r.Delivered | r.NotOwner:
        session = self._session_held(held)
        if isinstance(session, r.NotOwner):
            return session
        seqs = session.deliver(entries)
        self._keep_session(session, now_ms)
        return r.Delivered(seqs, session.revision)

    def acknowledge(
        self, held: r.Holding, upto: int, next_chunk_seq: int, half_sample: bytes, now_ms: int
    ) -> int:
        session = self._session_held(held)
        if isinstance(session, r.NotOwner):
            return 0
        session.acknowledge(upto, next_chunk_seq, half_sample)
        self._keep_session(session, now_ms)
        return session.revision

    def renew_session(self, held: r.Holding, now_ms: int) -> bool:
        session = self._session_held(held)
        if isinstance(session, r.NotOwner):
            return False
        self._keep_session(session, now_ms)
        return True

    def end_session(self, session_id: SessionId, owner: r.SessionOwner) -> bool:
        session = self.sessions.get(session_id)
        if session is None:
            return True
        if session.owner != owner:
            return False
        del self.sessions[session_id]
        self._sessions_due.forget(session_id)
        return True

    # --- time -----------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Forget what has run out."""
        for session_id in self._sessions_due.due(now_ms, len(self.sessions)):
            del self.sessions[session_id]
            self._sessions_due.forget(session_id)
        for job_id in self._ended_due.due(now_ms, len(self.jobs)):
            job = self.jobs[job_id]
            job.output = None
            if job.forget_at_ms <= now_ms:
                self._forget(job)

    def _look_at(self, job_id: JobId) -> int:
        return self.jobs[job_id].look_at_ms

    def _job_expires_at(self, job_id: JobId) -> int:
        return self.jobs[job_id].expires_at_ms

    def _session_expires_at(self, session_id: SessionId) -> int:
        return self.sessions[session_id].expires_at_ms

    # --- inside ---------------------------------------------------------------------------------

    def _open_next(
        self,
        opening: r.UtteranceOpening,
        session: ShardSession,
        found: Sequence[r.JobFound | None],
        now_ms: int,
    ) -> r.Opened:
        """The session's next utterance; its refused jobs take their turns at once."""
        answers = [
            answer or self._make(job, opening, now_ms)
            for job, answer in zip(opening.jobs, found, strict=True)
        ]
        places = [
            r.OpenUtterance(opening.index, job.target_key, _job_id(job, answer))
            for job, answer in zip(opening.jobs, answers, strict=True)
        ]
        session.open(opening, (*places, *opening.elsewhere))
        for position, job in enumerate(opening.jobs):
            if job.refused is not None and isinstance(answers[position], r.JobOpened):
                delivery = r.Delivery(opening.index, job.target_key, job.job_id)
                answers[position] = r.JobOpened(session.deliver((delivery,))[0])
        self._keep_session(session, now_ms)
        return r.Opened(now_ms, tuple(answers), session.revision)

    def _known(self, new: r.NewJob) -> ShardJob | None:
        """The job that was made of the request, or the very same asked for again."""
        same = self.jobs.get(new.job_id)
        if same is not None:
            return same
        job_id = self.requests.get(_request(new))
        return self.jobs[job_id] if job_id is not None else None

    def _bound(self, new: r.NewJob, now_ms: int) -> ShardJob | None:
        """The job that answers the request now: a failed one, or one of long ago, does not."""
        job = self._known(new)
        if job is None or job.job_id == new.job_id:
            return job
        return job if not job.ended or job.bound_until_ms > now_ms else None

    def _found(self, new: r.NewJob, job: ShardJob | None, now_ms: int) -> r.JobFound | None:
        if job is None:
            return None
        return r.JobFound(job.record(now_ms), job.body_hash == new.body_hash)

    def _make(self, new: r.NewJob, opening: r.UtteranceOpening, now_ms: int) -> r.JobOpened:
        job = ShardJob(
            job_id=new.job_id,
            request=_request(new),
            spec=new.spec,
            input=new.input,
            body_hash=new.body_hash,
            instance_id=opening.instance_id,
            attempt_id=new.attempt_id,
            cell=new.cell,
            created_ms=now_ms,
            moved_ms=now_ms,
            claim_until_ms=now_ms + opening.claim_ms,
            total_until_ms=None if new.total_ms is None else now_ms + new.total_ms,
        )
        self.jobs[job.job_id] = job
        self.requests[job.request] = job.job_id
        self._recent.setdefault(job.spec.tenant, RecentJobs()).add((now_ms, job.job_id))
        self._open_due.watch(job.job_id, job.look_at_ms)
        if new.refused is not None:
            self._end(job, Ending(Outcome.FAILED, error=new.refused), opening.keep, now_ms)
        return r.JobOpened()

    def _current(
        self, job_id: JobId, attempt_id: AttemptId | None, now_ms: int
    ) -> ShardJob | r.NotCurrent | r.HasEnded | r.NoJob:
        """The open job, if its record names the attempt."""
        job = self.jobs.get(job_id)
        if job is None:
            return r.NoJob()
        if job.ended:
            return r.HasEnded(job.record(now_ms))
        if attempt_id is not None and job.attempt_id != attempt_id:
            return r.NotCurrent(job.record(now_ms))
        return job

    def _end(self, job: ShardJob, ending: Ending, keep: Keep, now_ms: int) -> None:
        job.input = None
        job.outcome, job.output, job.error = ending.outcome, ending.output, ending.error
        success = ending.outcome is Outcome.SUCCESS
        job.bound_until_ms = now_ms + keep.lease_ms if success else now_ms
        job.release_at_ms = now_ms + max(keep.retention_ms, keep.lease_ms)
        job.forget_at_ms = job.release_at_ms + keep.lease_ms
        self._open_due.forget(job.job_id)
        self._ended_due.watch(job.job_id, job.expires_at_ms)

    def _forget(self, job: ShardJob) -> None:
        del self.jobs[job.job_id]
        self._ended_due.forget(job.job_id)
        if self.requests.get(job.request) == job.job_id:
            del self.requests[job.request]
        recent = self._recent[job.spec.tenant]
        recent.remove((job.created_ms, job.job_id))
        if not recent:
            del self._recent[job.spec.tenant]

    def _session_held(self, held: r.Holding) -> ShardSession | r.NotOwner:
        session = self.sessions.get(held.session_id)
        if session is not None and session.is_held_as(held):
            return session
        return r.NotOwner(session.owner if session is not None else None)

    def _keep_session(self, session: ShardSession, now_ms: int) -> None:
        """The session was written to, or renewed: it lives on for a while."""
        session.expires_at_ms = now_ms + self._session_ms
        self.sessions[session.session_id] = session
        self._sessions_due.watch(session.session_id, session.expires_at_ms)


def _request(new: r.NewJob) -> Request:
    return new.spec.tenant, new.spec.request_id, new.target_key


def _job_id(new: r.NewJob, answer: r.JobOpened | r.JobFound) -> JobId:
    return answer.job.job_id if isinstance(answer, r.JobFound) else new.job_id


def _work(job: ShardJob, now_ms: int) -> r.OpenWork:
    assert job.input is not None, "an open job has its input"
    return r.OpenWork(job.record(now_ms), job.input)
