"""Runs the measurements of experiments one after another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from benchmarks.full_job.figures import Figures
from benchmarks.full_job.page import record
from benchmarks.lab.beside_live import live_figures
from benchmarks.lab.throughput import (
    comparison_figures,
    growth_figures,
    measure_growth,
    measure_here,
    measure_tools,
)

ITEMS = 20_000
QUICK_ITEMS = 1_000
GROWTH = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Options:
    """What of it to run, and what to do with the figures."""

    quick: bool = False
    peers: bool = True
    record: bool = False


def run(options: Options) -> list[Table]:
    """Everything in one run, so that the figures may be compared."""
    items = QUICK_ITEMS if options.quick else ITEMS
    here = measure_here(items)
    print(f"Dragoman: {here.items_per_second:,.0f} items/s")
    tools = measure_tools(items, print) if options.peers else {}
    figures: list[Figures] = [comparison_figures(here, tools)]
    if not options.quick:
        figures.append(growth_figures(measure_growth(GROWTH, print)))
    figures.append(live_figures(options.quick))
    if options.record:
        record("lab", figures, datetime.now(UTC).date())
    return [table.drawn() for table in figures]
