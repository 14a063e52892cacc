"""`python -m benchmarks simulate`: speed, strategies, and a scenario lived and simulated."""

from __future__ import annotations

from rich.table import Table

from benchmarks.simulation.reality import reality
from benchmarks.simulation.speed import speed
from benchmarks.simulation.strategies import strategies
from dragoman.observability import configure_logging


def run(quick: bool) -> list[Table]:
    """Every table."""
    configure_logging("error", "console")
    if quick:
        return [speed(20), *strategies(runs=2, jobs=300), reality(5, 3)]
    return [speed(300), *strategies(runs=5, jobs=5_000), reality(230, 45)]
