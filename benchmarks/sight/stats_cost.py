"""What a stats request and a snapshot cost, for a small fleet and for a very large one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.fleet import TENANT, make_plane, register_all
from dragoman.clock import SystemClock
from dragoman.ids import ConnectionId
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import SchedulerToClient, SessionInit
from dragoman.live.stats import Stats, StatsCache, StatsSource
from dragoman.observability import LimitWatch, Metrics
from dragoman.settings import load_settings

REQUESTS = 20_000
SNAPSHOTS = 1_000


class SilentClient:
    """A client's connection that takes everything and says nothing."""

    def __init__(self, number: int) -> None:
        self.id = ConnectionId(f"s{number}")

    def send(self, message: SchedulerToClient) -> bool:
        return True

    def superseded(self) -> None:
        """No session supersedes another here."""

    def timed_out(self) -> None:
        """No client falls silent here."""

    def overrun(self, reason: str) -> None:
        """No client sends too much here."""

    def finished(self) -> None:
        """No client says goodbye here."""

    def draining(self) -> None:
        """The server does not stop here."""

    def ended(self) -> None:
        """No session is ended by order here."""


async def stats_cost_us(nodes: int, sessions: int) -> tuple[float, float]:
    """CPU microseconds of a request, written as JSON, and of making a snapshot."""
    plane = make_plane()
    try:
        await register_all(plane, nodes)
        init = SessionInit(src_lang="en", tgt_lang="es")
        for number in range(sessions):
            await plane.sessions.open(init, TENANT, SilentClient(number))
        return await _measured(plane)
    finally:
        await plane.stop()


def new_cache(
    plane: LivePlane, take: Callable[[], Awaitable[Stats]] | None = None
) -> tuple[StatsSource, StatsCache]:
    """A source of a plane's stats, and a cache of what it makes, or of what is given."""
    metrics, clock = Metrics(), SystemClock()
    source = StatsSource(
        registry=plane.registry,
        sessions=plane.sessions,
        dispatcher=plane.dispatcher,
        ledger=plane.ledger,
        metrics=metrics,
        clock=clock,
        top_k=20,
    )
    rules = load_settings(environ={}).settings.scheduler.stats
    watch = LimitWatch(metrics, clock, path_warn_ms=50, lock_wait_warn_ms=10)
    return source, StatsCache(take or source.take, rules, metrics, watch, clock)


async def _measured(plane: LivePlane) -> tuple[float, float]:
    source, cache = new_cache(plane)
    began = time.process_time()
    for _ in range(SNAPSHOTS):
        await source.take()
    snapshot_us = (time.process_time() - began) / SNAPSHOTS * 1e6
    making = asyncio.create_task(cache.run())
    while cache.snapshot is None:  # noqa: ASYNC110  # no request waits for a first snapshot
        await asyncio.sleep(0.01)
    began = time.process_time()
    for _ in range(REQUESTS):
        msgspec.json.encode(cache.read())
    request_us = (time.process_time() - began) / REQUESTS * 1e6
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
    return request_us, snapshot_us
