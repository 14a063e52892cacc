"""Watching a job that another instance drives: a session goes on elsewhere, its jobs do not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from dragoman.ids import AttemptId, InstanceId, JobId
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.dispatch.orders import Progress
from dragoman.live.dispatch.ports import PeerPort
from dragoman.live.ledger import JobRecord, Ledger
from dragoman.live.protocol import RunningJob


class Watching:
    """Asks others to tell us how jobs go on, and tells them of ours."""

    def __init__(
        self,
        ledger: Ledger,
        peers: PeerPort,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._ledger = ledger
        self._peers = peers
        self._spawn = spawn

    def ask(self, record: JobRecord, steps: bool) -> None:
        """Have those who hear of the job tell us too: its partials, and its steps if asked to."""
        self._spawn(self._ask(record, steps))

    async def _ask(self, record: JobRecord, steps: bool) -> None:
        current = record.current_attempt
        who = {record.claimed_by}
        attempt_id: AttemptId | None = None
        if current is not None:
            attempt_id = current.attempt_id
            attempt = await self._ledger.read_attempt(current.cell, attempt_id)
            if attempt is not None:
                # Its driver may be gone; the instance that has its node hears of it first.
                who.add(attempt.owner.instance_id)
        for instance_id in sorted(who):
            self._peers.watch(record.job_id, attempt_id, instance_id, steps=steps)

    def pass_on(self, job: LiveJob, watcher: InstanceId, steps: bool) -> None:
        """Tell another instance, instead of the watcher here."""
        job.on_partial = partial(self._peers.partial, driver=watcher)
        job.on_progress = partial(self._progressed, job, watcher) if steps else None

    def _progressed(
        self, job: LiveJob, watcher: InstanceId, progress: Progress, job_id: JobId
    ) -> None:
        attempt_id = job.attempt.attempt_id if job.attempt is not None else AttemptId("")
        self._peers.progressed(RunningJob(job_id, attempt_id), watcher, progress)
