"""Stats that take long to make, while many ask for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import process_time

from benchmarks.sight.cpu_time import until
from benchmarks.sight.stats_cost import new_cache
from dragoman.errors import StatsNotReady
from dragoman.live.gateway import LivePlane
from dragoman.live.stats import Stats

_MAKING_SECONDS = 1.0
_TURN_SECONDS = 0.01
_REQUESTS_PER_TURN = 10


async def slow_stats(plane: LivePlane, seconds: float) -> None:
    """Ask for stats a thousand times a second; at every moment a request waits for the ledger."""

    async def take() -> Stats:
        await asyncio.sleep(_MAKING_SECONDS)
        return await source.take()

    source, cache = new_cache(plane, take)
    making = asyncio.create_task(cache.run())
    began = process_time()
    for turn in range(1, int(seconds / _TURN_SECONDS) + 1):
        for _ in range(_REQUESTS_PER_TURN):
            with suppress(StatsNotReady):
                cache.read()
        await until(began + turn * _TURN_SECONDS)
    making.cancel()
    await asyncio.gather(making, return_exceptions=True)
