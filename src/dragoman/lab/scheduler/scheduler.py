"""The scheduler: makes sure that every run that has not ended has a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.feed import WatcherFeed
from dragoman.lab.model import RunId
from dragoman.lab.queue import Queue
from dragoman.lab.repository import runs
from dragoman.lab.scheduler.driver import Drive, Driver
from dragoman.lab.states import ACTIVE
from dragoman.observability import Metrics, get_logger
from dragoman.settings import LabSettings
from dragoman.store import Store

ORPHANS_AT_ONCE = 100
COUNT_EVERY_SECONDS = 5.0


class Scheduler:
    """Drives runs; it finds those of a dead process by their lease, and resumes them."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        settings: LabSettings,
        feed: WatcherFeed,
        *,
        owner: str,
        clock: Clock,
        metrics: Metrics,
        adopts: bool = True,
        cannot_open: Callable[[RunId], Awaitable[str | None]] | None = None,
        end: Callable[[RunId, str], Awaitable[None]] | None = None,
    ) -> None:
        """`cannot_open` says why the run of a program cannot be carried out here; None if it can.

        `end` ends a run that cannot go on.
        """
        self._store = store
        self._queue = queue
        self._clock = clock
        self._metrics = metrics
        self._adopts = adopts
        self._cannot_open = cannot_open
        self._end = end
        self._left_alone: set[RunId] = set()
        """Runs of programs that ended, which cannot be carried out here."""
        self._tick_seconds = settings.safety_tick_ms / 1000
        self._driver = Driver(
            store, queue, settings, feed, owner=owner, clock=clock, metrics=metrics
        )
        self._own: set[RunId] = set()
        self._drives: dict[RunId, tuple[Drive, asyncio.Task[None]]] = {}
        self._sweep_now = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._counted_at = -COUNT_EVERY_SECONDS
        self._log = get_logger(__name__, clock)

    async def start(self) -> None:
        """Begin to drive runs."""
        self._loops = [asyncio.create_task(self._hear_news()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """Stop driving; the next scheduler goes on from there."""
        tasks = [*self._loops, *(task for _, task in self._drives.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def take_on(self, run_id: RunId) -> None:
        """Drive a run that this process has started."""
        self._own.add(run_id)
        self._queue.news.put(run_id)

    async def _hear_news(self) -> None:
        while True:
            for run_id in await self._queue.news.take():
                if run_id in self._drives:
                    self._drives[run_id][0].wake.set()
                elif self._adopts or run_id in self._own:
                    self._sweep_now.set()

    async def _sweep(self) -> None:
        while True:
            self._sweep_now.clear()
            try:
                for run_id in await self._undriven():
                    self._begin(run_id)
                await self._count()
            except StoreError as error:
                self._log.warning_limited(
                    "lab_sweep_failed", key="", every_seconds=10, reason=error.message
                )
            except Exception:
                self._log.exception("lab_sweep_failed")
            await _set_within(self._sweep_now, self._tick_seconds)

    async def _undriven(self) -> list[RunId]:
        """The runs to drive from now on: those it was told of, and those without a driver."""
        found: set[RunId] = set()
        if self._adopts or self._own:
            for orphan in await self._store.read(lambda c: runs.orphans(c, ORPHANS_AT_ONCE)):
                if orphan.run_id not in self._drives and await self._takes_up(orphan):
                    found.add(orphan.run_id)
        if undriven := self._own - self._drives.keys():
            statuses = await self._store.read(lambda c: runs.statuses_of(c, undriven))
            self._own -= {run_id for run_id in undriven if statuses.get(run_id) not in ACTIVE}
            found.update(undriven & self._own)
        return [run_id for run_id in found if run_id not in self._drives]

    async def _takes_up(self, orphan: runs.Orphan) -> bool:
        """Whether this process goes on with a run that no process drives.

        A program's abandoned run can go on where its functions can be called. A server ends what
        it cannot carry out, so that it does not count as running for ever.
        """
        if not orphan.of_a_program:
            return self._adopts
        if self._cannot_open is None or orphan.run_id in self._left_alone:
            return False
        reason = await self._cannot_open(orphan.run_id)
        if reason is None:
            self._log.info("lab_run_taken_up", run_id=orphan.run_id)
            return True
        if self._adopts and self._end is not None:
            await self._end(
                orphan.run_id,
                f"The program that ran it has ended, and this server cannot resume it: {reason} "
                "Run that program again, or retry it where its functions are.",
            )
            return True
        self._left_alone.add(orphan.run_id)
        return False

    def _begin(self, run_id: RunId) -> None:
        drive = Drive(run_id)
        task = asyncio.create_task(self._driver.drive(drive))
        self._drives[run_id] = (drive, task)
        task.add_done_callback(lambda _: self._drives.pop(run_id, None))

    async def _count(self) -> None:
        now = self._clock.monotonic()
        if now - self._counted_at < COUNT_EVERY_SECONDS:
            return
        self._counted_at = now
        counts = await self._store.read(runs.count_active_by_status)
        for status in ACTIVE:
            self._metrics.lab_runs.labels(status.value).set(counts.get(status, 0))


async def _set_within(event: asyncio.Event, timeout_seconds: float) -> None:
    try:
        async with asyncio.timeout(timeout_seconds):
            await event.wait()
    except TimeoutError:
        pass
