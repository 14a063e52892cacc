"""Running schedules by their seeds: so many of them in each test, or one again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from tests.chaos_seeds import ONLY, chaos_seeds
from tests.simulation.logged_errors import none_logged
from tests.simulation.uncollected import only_new_looked_at

AT_A_TIME = 10
"""How many schedules a test runs: few enough for the time a test may take on a busy machine."""

all_but_one = pytest.mark.skipif(ONLY is not None, reason="one schedule is replayed")
one_again = pytest.mark.skipif(
    ONLY is None, reason="DRAGOMAN_CHAOS_SEED names the schedule to replay"
)


def shares(schedules: int) -> Sequence[range]:
    """The seeds of so many schedules, or of those that the environment names."""
    seeds = chaos_seeds(schedules)
    return [seeds[start : start + AT_A_TIME] for start in range(0, len(seeds), AT_A_TIME)]


def named(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


def run_all(run_schedule: Callable[[int], object], seeds: Sequence[int], test: str) -> None:
    """Run schedules; one that fails, or logs an error, tells how it is had again."""
    for seed in seeds:
        try:
            with none_logged(), only_new_looked_at():
                run_schedule(seed)
        except (Exception, asyncio.CancelledError) as error:
            error.add_note(
                f"Schedule {seed} failed. Replay it: DRAGOMAN_CHAOS_SEED={seed} .venv/bin/pytest"
                f" -n 0 {test}"
            )
            raise


def run_one_again(run_schedule: Callable[[int], object], test: str) -> None:
    run_all(run_schedule, [int(ONLY or 0)], test)
