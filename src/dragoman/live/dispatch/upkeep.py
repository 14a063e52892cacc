"""What goes on in the background: renewing claims, and the sweep behind every timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman.errors import DependencyDown
from dragoman.ids import JOB_SHARDS, InstanceId, JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.ports import NodePort
from dragoman.live.ledger import (
    AttemptRecord,
    CancelWon,
    Freed,
    JobInput,
    JobRecord,
    Ledger,
    Sweeper,
    Terms,
)
from dragoman.live.protocol import Command, NodeControl, RunningJob
from dragoman.observability import Watch, get_logger

log = get_logger("dragoman.dispatch")

SWEEP_SECONDS = 0.5
WON_BACK_CODE = "JOB_TIMEOUT"


class SweepingHands:
    """Lets the sweep act through dispatch."""

    def __init__(self, course: Course, nodes: NodePort) -> None:
        self._course = course
        self._nodes = nodes

    async def tell_cancel(self, won: CancelWon, attempt: AttemptRecord) -> None:
        running = RunningJob(attempt.job_id, attempt.attempt_id)
        self._course.tell_cancel(running, won.node_id, won.owner, WON_BACK_CODE)

    async def ask_report(self, attempt: AttemptRecord) -> None:
        self._nodes.send(attempt.node_id, attempt.owner, NodeControl(Command.REPORT))

    async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
        await self._course.resume(job, job_input)

    async def ended(self, job: JobRecord) -> None:
        self._course.ended(job)

    async def freed(self, freed: Freed) -> None:
        self._course.freed(freed)


class Upkeep:
    """Two loops that never stop while the instance lives."""

    def __init__(
        self,
        ledger: Ledger,
        course: Course,
        nodes: NodePort,
        terms: Terms,
        instance_id: InstanceId,
        watch: Watch,
    ) -> None:
        self._watch = watch
        self._adrift: set[JobId] = set()
        self._ledger = ledger
        self._course = course
        self._terms = terms
        self._instance_id = instance_id
        self._sweeper = Sweeper(ledger, SweepingHands(course, nodes), terms, instance_id)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(SWEEP_SECONDS, self._look_around))
            group.create_task(self._every(self._terms.ack_ms / 3000, self._renew))

    async def sweep_once(self) -> int:
        with self._watch.path("sweep"):
            cells = await self._ledger.cells()
            return await self._sweeper.sweep(cells, range(JOB_SHARDS))

    async def _look_around(self) -> None:
        await self.sweep_once()
        # Slots come free unheard: on another instance, or while the ledger did not answer.
        self._course.wake()

    async def _renew(self) -> None:
        """Go on promising to drive the jobs that have no attempt out."""
        self._take_up_adrift()
        waiting = [job.job_id for job in self._course.jobs.values() if job.attempt is None]
        if not waiting:
            return
        refused = await self._ledger.renew_claims(
            waiting, self._instance_id, claim_ms=self._terms.ack_ms
        )
        for job_id in refused:
            record = await self._ledger.read(job_id)
            if record is not None and record.ended:
                self._course.ended(record)

    def _take_up_adrift(self) -> None:
        """Look again for jobs that nobody has looked for since the last time."""
        adrift = {job.job_id for job in self._course.jobs.values() if job.adrift}
        for job_id in adrift & self._adrift:
            job = self._course.jobs[job_id]
            log.warning_limited("job_adrift", key="adrift", every_seconds=10, job_id=job_id)
            self._course.spawn(self._course.look_again(job))
        self._adrift = adrift

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat something for as long as the instance lives, whatever befalls it."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except DependencyDown as error:
                log.warning_limited(
                    "upkeep_skipped", key=work.__name__, every_seconds=10, error=error.message
                )
            except Exception:
                log.exception("upkeep_failed", work=work.__name__)
