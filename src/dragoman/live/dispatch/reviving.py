"""Jobs that another instance, or this one before, was driving."""

from __future__ import annotations

from dragoman.clock import Clock
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import pairs_of, waits_forever
from dragoman.live.dispatch.routes import Routes
from dragoman.live.ledger import JobInput, JobRecord, Ledger
from dragoman.live.snapshot import Requirements


class Reviving:
    """Makes a job that can be driven of what the ledger has of it."""

    def __init__(
        self,
        ledger: Ledger,
        requirements: Requirements,
        routes: Routes,
        pending_seconds: float,
        claim_ms: int,
        clock: Clock,
    ) -> None:
        """claim_ms: for how long drivers claim their jobs."""
        self._ledger = ledger
        self._requirements = requirements
        self._routes = routes
        self._pending_seconds = pending_seconds
        self._claim_ms = claim_ms
        self._clock = clock

    async def revive(self, record: JobRecord, job_input: JobInput | None) -> LiveJob | None:
        """The job as it was left; None when its input is gone, for then it has ended."""
        if job_input is None:
            job_input = await self._ledger.read_input(record.job_id)
        if job_input is None:
            return None
        spec = record.spec
        job = LiveJob(
            record.job_id,
            spec,
            job_input,
            self._requirements.of(pairs_of(spec), spec.pipeline, spec.features),
            self._routes.of(spec.session_id) if spec.session_id else None,
            self._clock.monotonic(),
        )
        if record.total_until_ms is not None:
            job.deadline = self._when(record.total_until_ms, record)
        since_ms = _waits_since_ms(record)
        if since_ms is not None and not waits_forever(spec):
            since = min(self._clock.monotonic(), self._when(since_ms, record))
            job.pending_until = since + self._pending_seconds
        return job

    def _when(self, at_ms: int, record: JobRecord) -> float:
        """A moment of the ledger's time, in monotonic seconds.

        A job is revived right after it was claimed, and its claim tells the ledger's time of then.
        """
        claimed_ms = record.claim_until_ms - self._claim_ms
        return self._clock.monotonic() + (at_ms - claimed_ms) / 1000


def _waits_since_ms(record: JobRecord) -> int | None:
    """Since when the job looks for a slot, on any instance; None when that is not recorded."""
    if not record.attempts:
        return record.created_at_ms
    return record.attempts[-1].times.finished_ms or None
