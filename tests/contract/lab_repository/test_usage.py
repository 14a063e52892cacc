"""Deleting experiments gives a tenant nothing back, and leaves nothing that piles up."""

from __future__ import annotations

import sqlalchemy as sa
from tests.contract.lab_repository.bench import EXPERIMENT, TENANT, VERSION, Bench

from dragoman.lab.budgets import Spent
from dragoman.lab.model import Experiment, ExperimentSpec, TargetSpec
from dragoman.lab.repository import experiments, removing, spending
from dragoman.lab.states import RunMode, RunStatus


def run_and_delete(bench: Bench, tokens: int, cost: float) -> None:
    spec = ExperimentSpec("one", VERSION, TargetSpec("python"), ())
    made = Experiment(EXPERIMENT, TENANT, spec, RunStatus.PENDING, None, None, 0, None, None, None)
    bench.write(lambda c: experiments.insert_experiment(c, made))
    bench.new_run(RunMode.RETRY_ALL)
    used = sa.text(f"UPDATE experiment_stats SET tokens = {tokens}, cost = {cost} WHERE tokens = 0")
    bench.write(lambda c: c.execute(used).close())
    bench.write(lambda c: experiments.delete_experiment(c, EXPERIMENT))
    while bench.write(
        lambda c: removing.remove_some(c, removing.RemovedKind.EXPERIMENT, EXPERIMENT)
    ):
        pass


def test_deleted_experiments_leave_one_row_with_what_they_used(bench: Bench) -> None:
    for _ in range(3):
        run_and_delete(bench, tokens=100, cost=0.25)
    assert bench.rows("SELECT tenant, tokens, cost FROM experiment_stats") == [(TENANT, 300, 0.75)]
    assert bench.write(lambda c: spending.spent_by_tenant(c, TENANT)) == Spent(300, 0.75)


def test_deleted_experiments_that_used_nothing_leave_no_row(bench: Bench) -> None:
    run_and_delete(bench, tokens=0, cost=0.0)
    assert bench.rows("SELECT * FROM experiment_stats") == []
