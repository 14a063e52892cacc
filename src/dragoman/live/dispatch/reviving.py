"""Jobs that another instance, or this one before, was driving."""

from __future__ import annotations

from dragoman.clock import Clock
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import pairs_of
from dragoman.live.dispatch.routes import Routes
from dragoman.live.ledger import JobInput, JobRecord, Ledger
from dragoman.live.snapshot import Requirements


class Reviving:
    """Makes a job that can be driven of what the ledger has of it."""

    def __init__(
        self, ledger: Ledger, requirements: Requirements, routes: Routes, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._requirements = requirements
        self._routes = routes
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
            left_ms = max(0, record.total_until_ms - self._clock.now_ms())
            job.deadline = job.started + left_ms / 1000
        return job
