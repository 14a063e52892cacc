"""Jobs that are over go, though the collector of cycles does not look into them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pytest
from tests.simulation import chaos, session_chaos
from tests.simulation.uncollected import only_new_looked_at

from dragoman.live.dispatch import dispatcher
from dragoman.live.dispatch.job import Job
from dragoman.live.sessions import session

SEEDS = range(12)


class Mark:
    """Lives as long as the job that has it."""


class MarkedJob(Job, eq=False, gc=False):
    """A job whose end in memory can be seen; a job itself cannot be watched."""

    mark: Mark | None = None


@pytest.mark.parametrize("run_schedule", [chaos.run_schedule, session_chaos.run_schedule])
def test_nothing_is_left_of_jobs_whatever_happened_to_them(
    run_schedule: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: WeakSet[Mark] = WeakSet()
    made = 0

    def marked(*arguments: Any, **fields: Any) -> MarkedJob:
        nonlocal made
        made += 1
        job = MarkedJob(*arguments, **fields)
        job.mark = Mark()
        marks.add(job.mark)
        return job

    for module in (dispatcher, session):
        monkeypatch.setattr(module, "Job", marked)
    for seed in SEEDS:
        with only_new_looked_at():
            run_schedule(seed)
            while gc.collect():
                pass  # What a job held is seen when the job is gone.
        assert not marks, f"schedule {seed} left {len(marks)} jobs in memory"
    assert made > 100
