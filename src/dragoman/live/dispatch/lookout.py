"""Jobs that somebody here waits for and that other instances see to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from dragoman.clock import Clock
from dragoman.ids import JobId
from dragoman.live.dispatch.forgotten import forgotten
from dragoman.live.ledger import JobRecord, Ledger

_BATCH = 500
"""Jobs that are asked for at a time."""

OnEnd = Callable[[JobRecord], None]


class Lookout:
    """Finds out that a job has ended: by looking now and then, at once when somebody tells."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._waiting: dict[JobId, tuple[JobRecord, list[OnEnd]]] = {}
        """Each job as it was when somebody began to wait for it, and whom to call back."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._waiting

    def expect(self, record: JobRecord, on_end: OnEnd) -> None:
        """Call back, once, when the job has ended."""
        _, waiting = self._waiting.setdefault(record.job_id, (record, []))
        if on_end not in waiting:
            waiting.append(on_end)

    def forget(self, job_id: JobId, on_end: OnEnd) -> None:
        """Call back no more."""
        _, waiting = self._waiting.get(job_id, (None, []))
        if on_end in waiting:
            waiting.remove(on_end)
            if not waiting:
                del self._waiting[job_id]

    def told(self, record: JobRecord) -> None:
        """Somebody says that the job has ended."""
        _, waiting = self._waiting.pop(record.job_id, (None, []))
        for on_end in waiting:
            on_end(record)

    async def look(self) -> None:
        """Look for the ends of all that are waited for."""
        jobs = iter(list(self._waiting))
        while batch := tuple(islice(jobs, _BATCH)):
            await self._look_at(batch)

    async def _look_at(self, job_ids: Sequence[JobId]) -> None:
        records = await asyncio.gather(*map(self._ledger.read, job_ids))
        for job_id, record in zip(job_ids, records, strict=True):
            if record is not None and record.ended:
                self.told(record)
            elif record is None and job_id in self._waiting:
                known, _ = self._waiting[job_id]
                self.told(forgotten(known, self._clock.now_ms()))
