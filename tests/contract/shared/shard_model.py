"""What the rules say that shards hold: a plain model, written without looking at any backend.

It is told what was asked, says what must be answered, and keeps what must be true afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.ids import AttemptId, InstanceId, JobId, SessionId, shard_in
from dragoman.live.ledger import Ending, Keep
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r

Place = tuple[int, str]


@dataclass
class Job:
    """A job, its driver, and its one end."""

    new: r.NewJob
    instance_id: InstanceId
    attempt_id: AttemptId
    claim_until: float
    total_until: float
    past: list[AttemptId] = field(default_factory=list)
    end: Ending | None = None
    bound_until: float = 0.0
    forget_at: float = 0.0

    @property
    def request(self) -> tuple[str, str, str]:
        return self.new.spec.tenant, self.new.spec.request_id, self.new.target_key


@dataclass
class Session:
    """A session: what is open, and each number that was ever given."""

    session_id: SessionId
    owner: r.SessionOwner
    before: r.SessionOwner
    alive_until: float
    revision: int = 1
    """As it was read last."""
    next_index: int = 0
    next_chunk_seq: int = 0
    open: dict[Place, JobId] = field(default_factory=dict)
    given: dict[Place, int] = field(default_factory=dict)
    arrived: set[int] = field(default_factory=set)
    forgotten: set[int] = field(default_factory=set)

    @property
    def next_seq(self) -> int:
        return len(self.given) + 1

    @property
    def unacknowledged(self) -> list[int]:
        return [
            seq
            for seq in self.given.values()
            if seq not in self.arrived and seq not in self.forgotten
        ]


class ShardModel:
    """Sessions and jobs, and the time in seconds."""

    def __init__(self, keep: Keep, session_ms: int, keep_delivered: int) -> None:
        self.now = 0.0
        self.jobs: dict[JobId, Job] = {}
        self.bindings: dict[tuple[str, str, str], JobId] = {}
        self.sessions: dict[SessionId, Session] = {}
        self._keep = keep
        self._session_seconds = session_ms / 1000
        self._numbers_kept = keep_delivered * (1 + r.MARKS_PER_DELIVERY)

    def forget(self) -> None:
        """What has run out is gone."""
        for job_id, job in list(self.jobs.items()):
            if job.end is not None and job.forget_at <= self.now:
                del self.jobs[job_id]
                if self.bindings.get(job.request) == job_id:
                    del self.bindings[job.request]
        for session_id, session in list(self.sessions.items()):
            if session.alive_until <= self.now:
                del self.sessions[session_id]

    # --- jobs -----------------------------------------------------------------------------------

    def known(self, new: r.NewJob) -> Job | None:
        """The job that was last made of the request, or the very same."""
        if new.job_id in self.jobs:
            return self.jobs[new.job_id]
        request = new.spec.tenant, new.spec.request_id, new.target_key
        return self.jobs.get(self.bindings.get(request, JobId("")))

    def bound(self, new: r.NewJob) -> Job | None:
        """The job that answers the request now."""
        job = self.known(new)
        if job is None or job.new.job_id == new.job_id or job.end is None:
            return job
        return job if job.bound_until > self.now else None

    def make(self, new: r.NewJob, opening: r.UtteranceOpening) -> None:
        assert new.total_ms is not None
        job = Job(
            new,
            opening.instance_id,
            new.attempt_id,
            claim_until=self.claim(opening.claim_ms),
            total_until=self.now + new.total_ms / 1000,
        )
        self.jobs[new.job_id] = job
        self.bindings[job.request] = new.job_id
        if new.refused is not None:
            self.end(job, Ending(Outcome.FAILED, error=new.refused))

    def due(self, shard: int) -> set[JobId]:
        return {
            job_id
            for job_id, job in self.jobs.items()
            if shard_in(job_id) == shard
            and job.end is None
            and min(job.claim_until, job.total_until) <= self.now
        }

    def claim(self, claim_ms: int) -> float:
        return self.now + claim_ms / 1000

    def end(self, job: Job, ending: Ending) -> None:
        assert job.end is None, "a job has one end"
        job.end = ending
        lease, retention = self._keep.lease_ms / 1000, self._keep.retention_ms / 1000
        job.bound_until = self.now + (lease if ending.outcome is Outcome.SUCCESS else 0)
        job.forget_at = self.now + max(lease, retention) + lease

    # --- sessions -------------------------------------------------------------------------------

    def held(self, held: r.Holding) -> Session | None:
        """The session, if the holder may write to it."""
        session = self.sessions.get(held.session_id)
        if session is None or session.owner != held.owner or session.revision < held.seen:
            return None
        return session

    def touch(self, session: Session) -> None:
        session.alive_until = self.now + self._session_seconds

    def is_turn(self, session: Session, place: Place) -> bool:
        index, target = place
        earlier = (other for other in session.open if other[1] == target and other[0] < index)
        return index < session.next_index and not any(earlier)

    def deliver(self, session: Session, entry: r.Delivery) -> int | None:
        """The number that must be answered."""
        place = entry.index, entry.target
        seq = session.given.get(place)
        if seq is not None:
            return seq if seq in session.unacknowledged else 0
        if not self.is_turn(session, place):
            return None
        session.open.pop(place, None)
        seq = session.given[place] = session.next_seq
        if seq > self._numbers_kept:
            session.forgotten.add(seq - self._numbers_kept)
        return seq


def same_shard(session_id: str, job_id: str) -> bool:
    return shard_in(session_id) == shard_in(job_id)
