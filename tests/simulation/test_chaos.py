"""Whatever goes wrong with nodes, network and ledger: every job ends once, every slot returns.

Two hundred schedules run here; `make chaos` runs thousands. A failure names its seed and the
command that replays it.
"""

from __future__ import annotations

import pytest
from tests.simulation import schedules
from tests.simulation.chaos import run_schedule

TEST = "tests/simulation/test_chaos.py"


@schedules.all_but_one
@pytest.mark.parametrize("seeds", schedules.shares(200), ids=schedules.named)
def test_every_job_ends_once_and_every_slot_returns_whatever_goes_wrong(seeds: range) -> None:
    schedules.run_all(run_schedule, seeds, TEST)


@schedules.all_but_one
@pytest.mark.parametrize("seed", [770806, 770904, 774380])
def test_a_schedule_that_once_broke_a_law_breaks_none(seed: int) -> None:
    schedules.run_all(run_schedule, [seed], TEST)


@schedules.one_again
def test_one_schedule_again() -> None:
    schedules.run_one_again(run_schedule, TEST)
