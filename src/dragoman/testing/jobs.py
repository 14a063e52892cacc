"""Jobs that a test asks for without a session, as `POST /jobs` does."""

from __future__ import annotations

import asyncio

from dragoman.clock import Clock
from dragoman.errors import DragomanError
from dragoman.ids import JobId
from dragoman.live.ledger import JobRecord, JobSpec
from dragoman.live.protocol import JobPartial, JobResult, Outcome

LONG_SECONDS = 1_000.0
"""Virtual seconds in which anything that will happen has happened."""


class SubmittedJob:
    """A job that a caller asked for, and every end that the caller was told of."""

    def __init__(self, spec: JobSpec, clock: Clock) -> None:
        self.spec = spec
        self.asked_at = clock.monotonic()
        self.ended_at: float | None = None
        self._clock = clock
        self.job_id = JobId("")
        self.created = False
        """Whether this call made the job; False when the request was known."""
        self.refusal: DragomanError | None = None
        """Why the scheduler did not take the job; None when it did."""
        self.ends: list[JobRecord] = []
        """A right scheduler tells one."""
        self.partials: list[JobPartial] = []
        self.cancelled = False
        """The scheduler confirmed a cancel."""
        self.asker_is_gone = False
        """The instance that the caller asked is dead: it tells the caller nothing."""
        self._ended = asyncio.Event()

    def told(self, record: JobRecord) -> None:
        """Take the end that the scheduler tells."""
        if self.asker_is_gone:
            return
        self.ends.append(record)
        self.ended_at = self._clock.monotonic()
        self._ended.set()

    async def end(self, seconds: float = LONG_SECONDS) -> JobRecord:
        """The job's end, when it has come; TimeoutError after so many seconds without one."""
        if self.refusal is not None:
            raise self.refusal
        async with asyncio.timeout(seconds):
            await self._ended.wait()
        return self.ends[0]

    @property
    def over(self) -> bool:
        """Whether it ended or was refused."""
        return bool(self.ends) or self.refusal is not None

    @property
    def outcome(self) -> Outcome | None:
        return self.ends[0].outcome if self.ends else None

    @property
    def output(self) -> JobResult | None:
        """What the node answered; None while the job runs, or when no node did."""
        return self.ends[0].output if self.ends else None

    @property
    def code(self) -> str | None:
        """The code of the error that it ended with; None while it runs, or when it went well."""
        error = self.ends[0].error if self.ends else None
        return error.code if error else None
