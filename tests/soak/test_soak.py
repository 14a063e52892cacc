"""A minute of each soak: the laws hold, and what the load brought is gone when it stops."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import SystemRandom

import pytest
from tests.soak.__main__ import show, soak_all
from tests.soak.run import Report

_SECONDS = 60.0
_CLUSTER_SECONDS = 75.0
"""Its rests are longer, and each kind of fault has its turn."""


@pytest.mark.slow
@pytest.mark.redis
def test_after_a_minute_of_load_and_lies_nothing_is_lost_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    """In memory and on Redis, side by side. DRAGOMAN_SOAK_SEED repeats a run."""
    for report in _soaked(tmp_path, _SECONDS, "both"):
        assert report.counts["translation_result"] > 0
        assert report.counts["experiment: success"] > 0


@pytest.mark.slow
@pytest.mark.redis
def test_a_cluster_that_breaks_all_the_time_loses_nothing_and_keeps_nothing(
    tmp_path: Path,
) -> None:
    """An instance is killed, Redis paused and restarted, and nodes lose their connections."""
    (report,) = _soaked(tmp_path, _CLUSTER_SECONDS, "cluster")
    assert report.counts["translation_result"] > 0
    faults = [name for name in report.counts if name.startswith("fault: ")]
    assert len(faults) >= 2, report.counts


def _soaked(folder: Path, seconds: float, backend: str) -> list[Report]:
    """What was found, after all of it was judged."""
    seed = int(os.environ.get("DRAGOMAN_SOAK_SEED") or SystemRandom().randrange(1_000_000))
    reports = asyncio.run(soak_all(folder, seed, seconds, backend))
    for report in reports:
        show(report)
        assert not report.failures, f"seed {seed}"
    return reports
