"""Jobs that callers here wait for and that other instances drive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from dragoman.clock import Clock
from dragoman.ids import JobId
from dragoman.live.dispatch.forgotten import forgotten
from dragoman.live.dispatch.orders import OnEnd, OnPartial, OnProgress, Progress
from dragoman.live.ledger import JobRecord, Ledger
from dragoman.live.protocol import JobPartial

_BATCH = 500
"""Jobs that are asked for at a time."""


class Waiting:
    """Whom to tell of one job."""

    __slots__ = ("known", "on_end", "on_partial", "on_progress")

    def __init__(self, known: JobRecord) -> None:
        self.known = known
        """The job as it was when it was last looked at with interest."""
        self.on_end: list[OnEnd] = []
        self.on_partial: OnPartial | None = None
        self.on_progress: OnProgress | None = None

    @property
    def watched(self) -> bool:
        """Whether its way is of interest, and not its end alone."""
        return self.on_partial is not None or self.on_progress is not None


class Lookout:
    """Finds out that a job has ended: by looking now and then, at once when an instance tells."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        ask_progress: Callable[[JobRecord, bool], None] = lambda record, steps: None,
    ) -> None:
        """ask_progress has others tell us of a job's partials, and of its steps if asked to."""
        self._ledger = ledger
        self._clock = clock
        self._ask_progress = ask_progress
        self._waiting: dict[JobId, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._waiting

    def expect(
        self,
        record: JobRecord,
        on_end: OnEnd,
        on_partial: OnPartial | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Call back, once, when the job has ended; and on its way there, if asked to."""
        waiting = self._waiting.setdefault(record.job_id, Waiting(record))
        if on_end not in waiting.on_end:
            waiting.on_end.append(on_end)
        if on_partial is not None or on_progress is not None:
            waiting.on_partial, waiting.on_progress = on_partial, on_progress
            self._watch(waiting, record)

    def forget(self, job_id: JobId, on_end: OnEnd) -> None:
        """Call back no more."""
        waiting = self._waiting.get(job_id)
        if waiting is not None and on_end in waiting.on_end:
            waiting.on_end.remove(on_end)
            if not waiting.on_end:
                del self._waiting[job_id]

    def told(self, record: JobRecord) -> None:
        """An instance says that the job has ended."""
        waiting = self._waiting.pop(record.job_id, None)
        for on_end in waiting.on_end if waiting is not None else ():
            on_end(record)

    def progressed(self, job_id: JobId, progress: Progress) -> None:
        """An instance says that the job took a step."""
        waiting = self._waiting.get(job_id)
        if waiting is not None and waiting.on_progress is not None:
            waiting.on_progress(progress, job_id)

    def partial(self, partial: JobPartial) -> None:
        """An instance says what a node has recognised so far."""
        waiting = self._waiting.get(partial.job_id)
        if waiting is not None and waiting.on_partial is not None:
            waiting.on_partial(partial)

    async def look(self) -> None:
        """Look for the ends of all that are waited for."""
        jobs = iter(list(self._waiting))
        while batch := tuple(islice(jobs, _BATCH)):
            await self._look_at(batch)

    async def _look_at(self, job_ids: Sequence[JobId]) -> None:
        records = await asyncio.gather(*map(self._ledger.read, job_ids))
        for job_id, record in zip(job_ids, records, strict=True):
            waiting = self._waiting.get(job_id)
            if waiting is None:
                continue
            if record is None:
                self.told(forgotten(waiting.known, self._clock.now_ms()))
            elif record.ended:
                self.told(record)
            elif waiting.watched and _went_elsewhere(record, waiting.known):
                self._watch(waiting, record)

    def _watch(self, waiting: Waiting, record: JobRecord) -> None:
        waiting.known = record
        self._ask_progress(record, waiting.on_progress is not None)


def _went_elsewhere(now: JobRecord, before: JobRecord) -> bool:
    """Whether another instance can tell of the job now."""
    return (now.claimed_by, now.current) != (before.claimed_by, before.current)
