"""A minute of the soak: the laws hold, and what the load brought is gone when it stops."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import SystemRandom

import pytest
from tests.soak.__main__ import show, soak_all

_SECONDS = 60.0


@pytest.mark.slow
@pytest.mark.redis
def test_after_a_minute_of_load_and_lies_nothing_is_lost_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    """In memory and on Redis, side by side. DRAGOMAN_SOAK_SEED repeats a run."""
    seed = int(os.environ.get("DRAGOMAN_SOAK_SEED") or SystemRandom().randrange(1_000_000))
    reports = asyncio.run(soak_all(tmp_path, seed, _SECONDS, "both"))
    for report in reports:
        show(report)
        assert not report.failures, f"seed {seed}"
        assert report.counts["translation_result"] > 0
        assert report.counts["experiment: success"] > 0
