"""The worker: takes items under a lease, carries them out, journals every step."""

from dragoman.lab.worker.execution import (
    Bench,
    ItemOutcome,
    Reusable,
    TurnOutcome,
    WorkLimits,
    carry_out,
)
from dragoman.lab.worker.terms import Terms
from dragoman.lab.worker.worker import Worker
from dragoman.lab.worker.workplace import BenchOpener, OpenBench

__all__ = [
    "Bench",
    "BenchOpener",
    "ItemOutcome",
    "OpenBench",
    "Reusable",
    "Terms",
    "TurnOutcome",
    "WorkLimits",
    "Worker",
    "carry_out",
]
