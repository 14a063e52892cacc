"""Whatever becomes of instances, nodes and notes: every job ends once, every slot returns.

A hundred schedules run here; `make chaos` runs thousands. A failure names its seed and the command
that replays it.
"""

from __future__ import annotations

import os

import pytest
from tests.simulation.cluster_chaos import run_schedule

SCHEDULES = int(os.environ.get("DRAGOMAN_CHAOS_SCHEDULES", "100"))
SHARES = 10
"""Into how many tests the schedules are divided, so that they can run side by side."""
ONLY = os.environ.get("DRAGOMAN_CHAOS_SEED")


@pytest.mark.skipif(ONLY is not None, reason="one schedule is replayed")
@pytest.mark.parametrize("share", range(SHARES))
def test_every_job_ends_once_and_every_slot_returns_whichever_instance_dies(share: int) -> None:
    for seed in range(share, SCHEDULES, SHARES):
        _run(seed)


@pytest.mark.skipif(ONLY is None, reason="DRAGOMAN_CHAOS_SEED names the schedule to replay")
def test_one_schedule_again() -> None:
    _run(int(ONLY or 0))


def _run(seed: int) -> None:
    try:
        run_schedule(seed)
    except BaseException as error:
        error.add_note(
            f"Schedule {seed} failed. Replay it: "
            f"DRAGOMAN_CHAOS_SEED={seed} .venv/bin/pytest tests/simulation/test_cluster_chaos.py"
        )
        raise
