"""What the driver hands out goes by what was used up before, and by what was in progress then."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.lab_repository.bench import LONG_MS, TENANT, Bench, output, over, score

from dragoman.lab.budgets import NO_BUDGET
from dragoman.lab.repository import JournalEntry, experiments, journaling, leases, runs
from dragoman.lab.scheduler import step
from dragoman.store import StoreConnection

DRIVER, WORKER = "driver", "w-1"


def test_an_item_that_ends_after_the_look_at_the_budget_makes_no_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it used up was not seen: another item in its place could go beyond the budget."""
    ids = bench.with_items(4)
    run = bench.new_run()
    bench.start(run)
    busy = bench.take(run, bench.dispatch(run, 2), WORKER)
    held = bench.write(lambda c: leases.take(c, runs.lease_name(run.run_id), DRIVER, LONG_MS))
    experiment = bench.read(lambda c: experiments.find_experiment(c, run.experiment_id))
    assert held is not None
    assert experiment is not None
    plan = step.RunPlan(held, run, experiment, 2, NO_BUDGET, look_around=False)
    look = step._out_of_budget

    def look_and_then_the_items_end(connection: StoreConnection, *asked: Any) -> str | None:
        reason = look(connection, *asked)
        entries = [
            JournalEntry(TENANT, lease, what)
            for lease in busy
            for what in (output(lease), score(lease), over(lease))
        ]
        journaling.write_entries(connection, WORKER, entries, 5)
        return reason

    monkeypatch.setattr(step, "_out_of_budget", look_and_then_the_items_end)
    assert bench.write(lambda c: step.refill(c, plan)) == []

    monkeypatch.setattr(step, "_out_of_budget", look)
    handed_out = bench.write(lambda c: step.refill(c, plan))
    assert [key.item_id for key in handed_out] == ids[2:]
