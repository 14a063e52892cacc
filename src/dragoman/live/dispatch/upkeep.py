"""What goes on in the background: renewing claims, and the sweep behind every timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from dragoman.errors import DependencyDown
from dragoman.ids import JOB_SHARDS, InstanceId, JobId
from dragoman.live.dispatch.course import Course
from dragoman.live.dispatch.live_job import LiveJob
from dragoman.live.ledger import (
    AttemptRecord,
    CancelWon,
    Freed,
    JobInput,
    JobRecord,
    Ledger,
    Settlement,
    Sweeper,
    Terms,
)
from dragoman.live.protocol import RunningJob
from dragoman.observability import Watch, get_logger

log = get_logger("dragoman.dispatch")

SWEEP_SECONDS = 0.5
LOOK_SECONDS = 0.5
SWEEP_ALL_EVERY = 10
"""Passes; in the others an instance of several looks at its share alone."""

WON_BACK_CODE = "JOB_TIMEOUT"

_MOST_TOGETHER = 64
"""Jobs that are taken up at the same time."""


class Share(msgspec.Struct, frozen=True):
    """One instance's part of what several look after."""

    rank: int = 0
    count: int = 1

    def of(self, numbers: Sequence[int]) -> Sequence[int]:
        """The numbers that are this instance's; every number belongs to an instance."""
        return [number for number in numbers if number % self.count == self.rank]


WHOLE = Share()


class SweepingHands:
    """Lets the sweep act through dispatch."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._room = asyncio.Semaphore(_MOST_TOGETHER)

    async def tell_cancel(self, won: CancelWon, attempt: AttemptRecord) -> None:
        running = RunningJob(attempt.job_id, attempt.attempt_id)
        # Told again, the node hears the reason that it was told before.
        code = attempt.error.code if attempt.error is not None else WON_BACK_CODE
        self._course.reach.cancel(running, won.node_id, won.owner, code)

    async def ask_report(self, attempt: AttemptRecord) -> None:
        self._course.reach.ask_report(attempt.node_id, attempt.owner)

    async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
        # Beside: a sweep that stayed with each job until it has its node would come late to all
        # that is due after it.
        self._course.run(self._go_on(job, job_input))

    async def _go_on(self, job: JobRecord, job_input: JobInput) -> None:
        async with self._room:
            await self._course.go_on(job, job_input)

    async def ended(self, job: JobRecord) -> None:
        self._course.ended(job)

    async def freed(self, freed: Freed) -> None:
        self._course.freed(freed)


class Upkeep:
    """Three loops that never stop while the instance lives, and do not wait for each other."""

    def __init__(
        self,
        ledger: Ledger,
        course: Course,
        settlement: Settlement,
        terms: Terms,
        instance_id: InstanceId,
        watch: Watch,
        share: Callable[[], Share],
    ) -> None:
        self._watch = watch
        self._adrift: set[JobId] = set()
        self._ledger = ledger
        self._course = course
        self._terms = terms
        self._instance_id = instance_id
        self._share = share
        self._passes = 0
        self._sweeper = Sweeper(ledger, SweepingHands(course), terms, instance_id, settlement)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(SWEEP_SECONDS, self._sweep))
            group.create_task(self._every(LOOK_SECONDS, self._look_around))
            group.create_task(self._every(self._terms.ack_ms / 3000, self._renew))

    async def _sweep(self) -> None:
        with self._watch.path("sweep"):
            cells = await self._ledger.cells()
            share = self._share()
            if self._passes % SWEEP_ALL_EVERY == 0:
                # The instances that have the rest may be gone, unnoticed so far.
                share = WHOLE
            self._passes += 1
            await self._sweeper.sweep(share.of(cells), share.of(range(JOB_SHARDS)))

    async def _look_around(self) -> None:
        # Slots come free unheard: on another instance, or while the ledger did not answer.
        self._course.wake()
        await self._course.lookout.look()

    async def _renew(self) -> None:
        """Go on promising to drive the jobs that have no attempt out."""
        self._take_up_adrift()
        waiting = [job.job_id for job in self._course.jobs.values() if job.attempt is None]
        if not waiting:
            return
        refused = await self._ledger.renew_claims(
            waiting, self._instance_id, claim_ms=self._terms.ack_ms
        )
        records = await asyncio.gather(*map(self._ledger.read, refused))
        for job_id, record in zip(refused, records, strict=True):
            job = self._course.jobs.get(job_id)
            if record is not None and record.ended:
                self._course.ended(record)
            elif job is None or job.attempt is not None:
                continue
            elif record is None:
                self._course.gone(job)
            else:
                self._driven_by(record, job)

    def _driven_by(self, record: JobRecord, job: LiveJob) -> None:
        """Whose claim stands drives the job; it may be another instance's since we were silent."""
        if record.claimed_by != self._instance_id:
            self._course.hand_on(job, record)

    def _take_up_adrift(self) -> None:
        """Look again for jobs that no task has looked for since the last time."""
        adrift = {job.job_id for job in self._course.jobs.values() if job.adrift}
        for job_id in sorted(adrift & self._adrift)[:_MOST_TOGETHER]:
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
