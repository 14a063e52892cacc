"""Dispatch latency beside what might disturb it, in rounds that alternate; and the cost of stats.

Times are CPU time. A machine that is shared still grows slower and quicker by the minute: calm and
disturbed rounds take turns, so that both see the same machine.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from time import process_time
from typing import Any

from rich.table import Table

from benchmarks.sight.cpu_time import until
from benchmarks.sight.dispatching import beat_all, busy_plane, latencies_ms
from benchmarks.sight.slow_stats import slow_stats
from benchmarks.sight.stats_cost import stats_cost_us
from benchmarks.sight.storm import Storm
from dragoman.observability import configure_logging

ROUNDS = 10
ROUND_SECONDS = 0.4
REPORTS = 10_000
SERVER_COLLECTOR = (20_000, 50, 100)
"""How often `dragoman serve` looks for garbage; at Python's own pace that is what one measures."""
HOLD = 1.5
"""How many times the calm p99 the p99 in a storm may be."""

Disturbance = Callable[[float], Coroutine[Any, Any, None]]
"""What goes on beside the jobs of a round, for so many seconds."""


class Times:
    """Latencies of several rounds."""

    def __init__(self) -> None:
        self._found: list[float] = []

    def add(self, found: list[float]) -> None:
        self._found += found

    def at(self, share: float) -> float:
        return sorted(self._found)[int(len(self._found) * share)]

    def row(self, name: str, calm: Times) -> list[str]:
        ratio = self.at(0.99) / calm.at(0.99)
        shown = [f"{self.at(share):.2f}" for share in (0.5, 0.95, 0.99, 0.999)]
        return [name, f"{len(self._found):,}", *shown, f"{ratio:.2f} x"]


async def nothing(seconds: float) -> None:
    """Calm."""


async def disturbed_dispatch(rounds: int, round_seconds: float, reports: int) -> Table:
    """Rounds of jobs: calm, in a storm of reports, in a burst of them, beside slow stats."""
    plane = await busy_plane()
    storm = Storm(plane)
    await storm.gather()

    async def blow(seconds: float) -> None:
        await storm.blow(reports // rounds, seconds)

    async def burst(seconds: float) -> None:
        await until(process_time() + seconds / 2)
        await storm.blow(reports // rounds, 0)

    async def slow(seconds: float) -> None:
        await slow_stats(plane, seconds)

    a_second = reports / rounds / round_seconds
    kinds: dict[str, Disturbance] = {
        "calm": nothing,
        f"storm: {reports:,} reports of 50 nodes, {a_second:,.0f} a second": blow,
        f"the same reports in {rounds} bursts, as fast as they are taken": burst,
        "stats that take a second to make, asked for 1,000 times a second": slow,
    }
    # The same once more shows how far two figures lie apart when nothing is different.
    kinds["calm again"] = nothing
    times = {name: Times() for name in kinds}
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(*SERVER_COLLECTOR)
    try:
        await beat_all(plane)
        await latencies_ms(plane, 0.5)  # what is slow only once is not of interest
        for _ in range(rounds):
            for name, disturb in kinds.items():
                await beat_all(plane)
                beside = asyncio.create_task(disturb(round_seconds))
                times[name].add(await latencies_ms(plane, round_seconds))
                await beside
    finally:
        await storm.end()
        await plane.stop()
        gc.set_threshold(*before)
        gc.unfreeze()
    table = Table(
        title="Dispatch latency, from a job's coming to its node, CPU ms",
        caption=f"To hold: p99 in a storm within {HOLD} x of calm; unchanged beside slow stats.",
    )
    for heading in ("", "jobs", "p50", "p95", "p99", "p99.9", "p99 against calm"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, found in times.items():
        table.add_row(*found.row(name, times["calm"]))
    return table


async def stats_by_size(sizes: list[tuple[int, int]]) -> Table:
    table = Table(title="What stats cost (CPU us)")
    for heading in ("nodes", "sessions", "a request", "a snapshot"):
        table.add_column(heading, justify="right")
    for nodes, sessions in sizes:
        request_us, snapshot_us = await stats_cost_us(nodes, sessions)
        table.add_row(f"{nodes:,}", f"{sessions:,}", f"{request_us:.1f}", f"{snapshot_us:.1f}")
    return table


def run(quick: bool) -> list[Table]:
    """Two tables: who is disturbed by what, and what stats cost."""
    configure_logging("error", "console")
    rounds, seconds, reports = (2, 0.5, 1_000) if quick else (ROUNDS, ROUND_SECONDS, REPORTS)
    large = (2_000, 500) if quick else (100_000, 10_000)
    return [
        asyncio.run(disturbed_dispatch(rounds, seconds, reports)),
        asyncio.run(stats_by_size([(100, 10), large])),
    ]
