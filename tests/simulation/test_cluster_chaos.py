"""Whatever becomes of instances, nodes, notes and their server: every job ends once.

And every slot returns. A hundred and twenty schedules run here, sixty of sessions beside them;
`make chaos` runs thousands. A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import pytest
from tests.simulation import schedules
from tests.simulation.cluster_chaos import run_schedule

TEST = "tests/simulation/test_cluster_chaos.py"


@schedules.all_but_one
@pytest.mark.parametrize("seeds", schedules.shares(120), ids=schedules.named)
def test_every_job_ends_once_and_every_slot_returns_whichever_instance_dies(seeds: range) -> None:
    schedules.run_all(run_schedule, seeds, TEST)


@schedules.all_but_one
@pytest.mark.parametrize("seed", [770001, 770095])
def test_a_schedule_that_once_broke_a_law_breaks_none(seed: int) -> None:
    schedules.run_all(run_schedule, [seed], TEST)


@schedules.one_again
def test_one_schedule_again() -> None:
    schedules.run_one_again(run_schedule, TEST)
