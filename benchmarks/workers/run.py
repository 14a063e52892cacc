"""Runs the same calls with Dragoman and with task queues, on each database, with more workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.page import record
from benchmarks.full_job.peers.environments import NotInstalled
from benchmarks.workers import with_dragoman
from benchmarks.workers.calls import CONCURRENCY, LATENCY_SECONDS, allowed_per_second
from benchmarks.workers.measured import DatabaseServer, Measured, Task, database_server
from benchmarks.workers.peers.queues import QUEUES

DATABASES = ("PostgreSQL", "MariaDB")
WORKERS = (1, 2, 4)
ITEMS, QUICK_ITEMS = 6_000, 320
HOLD_ITEMS_PER_SECOND = 1_500
HOLD_SHARE = 0.95

_PARTS = ("scheduler", "workers", "database")

Tool = Callable[[Task, DatabaseServer], Measured]
Rounds = dict[tuple[str, int, float], Measured]
"""What was measured, by tool, number of workers and latency."""


@dataclass(frozen=True)
class Options:
    """What of it to run, and what to do with the figures."""

    quick: bool = False
    peers: bool = True
    record: bool = False
    databases: Sequence[str] = DATABASES


def run(options: Options) -> list[Table]:
    """Everything in one run, so that the figures may be compared."""
    tools: dict[str, Tool] = {"Dragoman": with_dragoman.measure}
    if options.peers:
        tools |= {name: queue.measure for name, queue in QUEUES.items()}
    figures = []
    for name in options.databases:
        with database_server(name) as database:
            figures.append(_measure(database, tools, options))
    return [table.drawn() for table in figures]


def _measure(database: DatabaseServer, tools: Mapping[str, Tool], options: Options) -> Figures:
    items = QUICK_ITEMS if options.quick else ITEMS
    rounds: Rounds = {}
    left_out = []
    for tool, measure in tools.items():
        try:
            for workers in WORKERS[:1] if options.quick else WORKERS:
                for latency_seconds in (0.0, LATENCY_SECONDS):
                    found = measure(Task(items, workers, latency_seconds), database)
                    rounds[tool, workers, latency_seconds] = found
                    print(
                        f"{database.name}, {tool}, {workers} workers, "
                        f"{latency_seconds * 1000:.0f} ms: {found.items_per_second:,.0f} items/s"
                    )
        except NotInstalled as why:
            left_out.append(f"{tool} is left out: {why}.")
            print(left_out[-1])
        figures = figures_of(database.name, items, rounds)
        figures.notes += left_out
        if options.record:
            # In a section for each database: a machine may have time for one of them only.
            record(f"workers --database {database.name}", [figures], datetime.now(UTC).date())
    return figures


def figures_of(database: str, items: int, rounds: Rounds) -> Figures:
    """A row for each tool and number of workers."""
    figures = Figures(
        f"{database}: {items:,} items, {CONCURRENCY} at once over all workers",
        (
            *("", "workers", "no latency, items/s"),
            *(f"CPU us an item, {part}" for part in _PARTS),
            *(f"{LATENCY_SECONDS * 1000:.0f} ms, items/s", "of what concurrency allows"),
        ),
    )
    for tool, workers in dict.fromkeys((tool, workers) for tool, workers, _ in rounds):
        fast = rounds.get((tool, workers, 0.0))
        slow = rounds.get((tool, workers, LATENCY_SECONDS))
        if fast is None or slow is None:
            continue
        figures.rows.append(
            (
                *(tool, str(workers), f"{fast.items_per_second:,.0f}"),
                *(f"{fast.cpu_us_per_item(part):,.0f}" for part in _PARTS),
                *(f"{slow.items_per_second:,.0f}", f"{_share(slow):.0%}"),
            )
        )
    figures.notes += _verdicts(database, rounds)
    figures.notes.append(
        "Dragoman's scheduler is `dragoman serve` with own_worker = false and Redis as its queue; "
        "each item has a lease, an output, a score and its rows in the tables that users read. A "
        "task queue's scheduler is its producer and its broker; each of its tasks makes the same "
        "call and one insert."
    )
    return figures


def _share(measured: Measured) -> float:
    allowed = allowed_per_second(LATENCY_SECONDS)
    assert allowed is not None
    return measured.items_per_second / allowed


def _verdicts(database: str, rounds: Rounds) -> list[str]:
    """What is to hold, and whether it does here."""
    found = []
    fast = rounds.get(("Dragoman", 1, 0.0))
    if database == "PostgreSQL" and fast is not None:
        rate = fast.items_per_second
        found.append(
            f"To hold: at least {HOLD_ITEMS_PER_SECOND:,} items/s with one worker and no latency. "
            f"{_verdict(rate >= HOLD_ITEMS_PER_SECOND)} here ({rate:,.0f})."
        )
    shares = [
        _share(one)
        for (tool, _, latency_seconds), one in rounds.items()
        if tool == "Dragoman" and latency_seconds
    ]
    if shares:
        found.append(
            f"To hold: {HOLD_SHARE:.0%} of what the concurrency allows with the "
            f"{LATENCY_SECONDS * 1000:.0f} ms target. {_verdict(min(shares) >= HOLD_SHARE)} here "
            f"({min(shares):.0%} at least)."
        )
    return found


def _verdict(held: bool) -> str:
    return "Held" if held else "Not held"
