"""Lets the other processes of the lab know of this one: what it works on, and how fast."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.owners import is_gone
from dragoman.lab.repository import RunAtWork, SeenWorker, Working, workers
from dragoman.observability import get_logger
from dragoman.store import Store
from dragoman.version import __version__

Result = TypeVar("Result")

REPORT_SECONDS = 1.0
"""How often a process reports while it works."""

IDLE_REPORT_SECONDS = 10.0
"""How often it reports while nothing changes: an idle lab should be quiet."""

SILENT_MS = 30_000
"""After so long without a report a process is paused, cut off or dead."""

RATE_SECONDS = 10.0
"""How far back `items_per_second` looks."""


class Activity(msgspec.Struct, frozen=True):
    """What a worker does at a moment."""

    doing: tuple[RunAtWork, ...] = ()
    items_done: int = 0
    is_draining: bool = False


class LabPresence:
    """Reports this process to the database until it stops."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        owner: str,
        activity: Callable[[], Activity],
        capacity: int,
        schedules: bool,
        mirror: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._activity = activity
        self._capacity = capacity
        self._schedules = schedules
        self._mirror = mirror
        self._started_at_ms = clock.now_ms()
        self._log = get_logger(__name__, clock)
        self._done: deque[tuple[float, int]] = deque([(clock.monotonic(), 0)])
        """How many items were done at which times, over the last seconds."""
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Report once before anything else happens here: later processes know of this one."""
        await self._try(self._report())
        self._loop = asyncio.create_task(self._keep_reporting(), name="the lab's presence")

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await self._try(self._store.write(lambda c: workers.forget(c, self._owner)))

    async def others(self) -> list[SeenWorker]:
        """The other processes of the lab that live, as far as is known here."""
        return [
            one
            for one in await self._store.read(workers.seen)
            if one.working.owner != self._owner and is_alive(one)
        ]

    async def _keep_reporting(self) -> None:
        said: Working | None = None
        reported_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            now = self._clock.monotonic()
            if self._said() != said or now - reported_at >= IDLE_REPORT_SECONDS:
                said = await self._try(self._report())
                reported_at = now

    async def _report(self) -> Working:
        said = self._said()
        await self._store.write(lambda c: workers.report(c, said))
        return said

    def _said(self) -> Working:
        activity = self._activity()
        return Working(
            owner=self._owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            schedules=self._schedules,
            mirror=self._mirror,
            is_draining=activity.is_draining,
            capacity=self._capacity,
            items_done=activity.items_done,
            items_per_second=self._rate(activity.items_done),
            doing=activity.doing,
            started_at_ms=self._started_at_ms,
        )

    def _rate(self, done: int) -> float:
        now = self._clock.monotonic()
        self._done.append((now, done))
        while len(self._done) > 2 and self._done[1][0] <= now - RATE_SECONDS:
            self._done.popleft()
        earlier, done_then = self._done[0]
        return round((done - done_then) / max(now - earlier, REPORT_SECONDS), 3)

    async def _try(self, work: Awaitable[Result]) -> Result | None:
        """Do what the next report makes up for; a database that is away is only logged."""
        try:
            return await work
        except StoreError as error:
            self._log.warning_limited(
                "lab_presence_waits", key="", every_seconds=60, reason=error.message
            )
        except Exception:
            self._log.exception("lab_presence_failed")
        return None


def is_alive(one: SeenWorker) -> bool:
    """Whether a process reported lately, and is not known to have ended."""
    return one.silent_ms < SILENT_MS and not is_gone(one.working.owner)


def notices(others: Sequence[SeenWorker], *, mirror: str, queue_url: str) -> list[str]:
    """What an operator who starts this instance beside others has to know."""
    said = []
    drivers = [one.working for one in others if one.working.schedules]
    if drivers and "duckdb" in (mirror, *(one.mirror for one in drivers)):
        said.append(
            f"{_listed(drivers)} on this database. A DuckDB copy of results has one owner: the "
            "instance that has it answers fast, the others read results from the database. For "
            "several instances set lab.analytics_url on each to the same ClickHouse server, or to "
            '"" to read from the database everywhere.'
        )
    if others and not queue_url:
        said.append(
            f"{_listed([one.working for one in others])} on this database, but lab.queue_url is "
            "empty: the lab finds their work only every lab.safety_tick_ms, and a watcher gets "
            "rows only from the instance that drives the run. Set lab.queue_url to the same Redis "
            'server on each, or to "database" on PostgreSQL.'
        )
    return said


def _listed(found: Sequence[Working]) -> str:
    names = [f"process {one.pid} on {one.host}" for one in found]
    kinds = "lab process runs" if len(names) == 1 else "lab processes run"
    return f"{len(names)} other {kinds} ({', '.join(names[:3])}{', ...' if names[3:] else ''})"
