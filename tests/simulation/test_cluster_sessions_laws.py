"""Whatever happens to instances and their server: every utterance ends once, in its place.

And nothing is left. Sixty schedules run here; `make chaos` runs thousands. A failure names its
seed and the command that replays it.
"""

from __future__ import annotations

import pytest
from tests.simulation import schedules
from tests.simulation.cluster_session_chaos import run_schedule

TEST = "tests/simulation/test_cluster_sessions_laws.py"


@schedules.all_but_one
@pytest.mark.parametrize("seeds", schedules.shares(60), ids=schedules.named)
def test_every_utterance_ends_once_and_in_order_at_whatever_instance(seeds: range) -> None:
    schedules.run_all(run_schedule, seeds, TEST)


@schedules.one_again
def test_one_schedule_again() -> None:
    schedules.run_one_again(run_schedule, TEST)
