"""Whatever happens to instances: every utterance ends once, in its place, and nothing is left.

Forty schedules run here; DRAGOMAN_CHAOS_SCHEDULES asks for more. A failure names its seed and the
command that replays it.
"""

from __future__ import annotations

import os

import pytest
from tests.simulation.cluster_session_chaos import run_schedule

SCHEDULES = int(os.environ.get("DRAGOMAN_CHAOS_SCHEDULES", "40"))
SHARES = 4
"""Into how many tests the schedules are divided, so that they can run side by side."""
ONLY = os.environ.get("DRAGOMAN_CHAOS_SEED")


@pytest.mark.skipif(ONLY is not None, reason="one schedule is replayed")
@pytest.mark.parametrize("share", range(SHARES))
def test_every_utterance_ends_once_and_in_order_at_whatever_instance(share: int) -> None:
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
            f"Schedule {seed} failed. Replay it: DRAGOMAN_CHAOS_SEED={seed} "
            ".venv/bin/pytest tests/simulation/test_cluster_sessions_laws.py"
        )
        raise
