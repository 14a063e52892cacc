"""One step of a run: everything that is due, in transactions under the driver's lease."""

from __future__ import annotations

import msgspec

from dragoman.lab.budgets import BUDGET_EXCEEDED, NO_BUDGET, used_up
from dragoman.lab.model import Budget, Experiment, ItemKey, Run
from dragoman.lab.repository import (
    Held,
    Logged,
    TakenBack,
    appending,
    archiving,
    dispatching,
    ending,
    experiments,
    giving_up,
    items,
    leases,
    read_now_ms,
    runs,
    showing,
    spending,
    starting,
)
from dragoman.lab.scheduler.modes import selection_of
from dragoman.lab.states import WORKING, RunMode, RunStatus
from dragoman.store import StoreConnection

START_PAGE = 1_000
ARCHIVE_BATCH = 500
TERMINATE_BATCH = 500
"""Rows that one transaction makes or moves: enough to be fast, few enough to let others in."""


class RunPlan(msgspec.Struct, frozen=True):
    """What a driver knows before a step."""

    held: Held
    run: Run
    experiment: Experiment
    concurrency: int
    tenant_budget: Budget
    """What the tenant may use up in all its experiments."""
    look_around: bool
    """Also look for lost workers and lost offers, which need not be done in every step."""
    handed_out: list[ItemKey] = []
    """Items that workers hold and that users do not see as such yet."""


class DriverStep(msgspec.Struct, frozen=True):
    """What a step found and did."""

    run: Run
    experiment: Experiment
    archived: list[Logged] = []
    terminated: int = 0
    taken_back: TakenBack = TakenBack((), ())
    untaken: list[ItemKey] = []
    """Items that were handed out and that no worker has taken: the offer may be lost."""
    ended: RunStatus | None = None
    more: bool = False
    """Whether there is more to do at once."""


def refill(connection: StoreConnection, plan: RunPlan) -> list[ItemKey]:
    """Hand out items first, before anything else."""
    leases.require(connection, plan.held)
    run = runs.find_run(connection, plan.run.run_id)
    if run is None or run.status not in WORKING:
        return []
    # Counted first: an item that ends after that is counted here, and one that ended before it is
    # in what is used up.
    busy = dispatching.count_worked_on(connection, run)
    reason = _out_of_budget(connection, plan, run)
    if reason is not None:
        # Without anything to hand out there is nothing to stop: what is in progress ends the run.
        if dispatching.is_waiting(connection, run):
            _stop(connection, run, reason)
        return []
    return dispatching.dispatch(connection, run, plan.concurrency, busy)


def _out_of_budget(connection: StoreConnection, plan: RunPlan, run: Run) -> str | None:
    """Why nothing more is handed out; None while there is something left of every budget.

    Asked together with every handing out: what is used up beyond a budget is at most what the items
    in progress use up.
    """
    if plan.tenant_budget != NO_BUDGET:
        spent = spending.spent_by_tenant(connection, run.tenant)
        if (used := used_up(plan.tenant_budget, spent)) is not None:
            return (
                f"The tenant has used up {used} (lab.tenant_tokens, lab.tenant_cost, or its own "
                "limit); have the limit raised, then go on with mode fail_retry."
            )
    if plan.experiment.spec.budget == NO_BUDGET:
        return None
    # As it is now: it may have been raised since the last look around.
    experiment = experiments.find_experiment(connection, run.experiment_id) or plan.experiment
    spent = spending.spent_by_experiment(connection, run.experiment_id)
    if (used := used_up(experiment.spec.budget, spent)) is None:
        return None
    return (
        f"The experiment has used up {used} of its budget; raise the budget, then go on with mode "
        "fail_retry."
    )


def _stop(connection: StoreConnection, run: Run, reason: str) -> None:
    """Stop a run whose budget is used up; calls in progress end, since they are paid for."""
    at_ms = read_now_ms(connection)
    runs.change_status(
        connection,
        run,
        RunStatus.TERMINATING,
        at_ms=at_ms,
        reason=reason,
        stop_code=BUDGET_EXCEEDED,
    )
    runs.set_let_finish(connection, run.run_id, let_finish=True)


def take_step(connection: StoreConnection, plan: RunPlan) -> DriverStep:
    """Start, archive and end, as far as the run is ready for each."""
    leases.require(connection, plan.held)
    at_ms = read_now_ms(connection)
    run, experiment = _as_of_now(connection, plan, at_ms)
    taken_back = TakenBack((), ())
    untaken: list[ItemKey] = []
    started = True
    terminated: list[ItemKey] = []
    if run.status in WORKING:
        started = run.start_done or starting.start_page(
            connection, run, selection_of(experiment, run), START_PAGE
        )
        if plan.look_around:
            taken_back = dispatching.take_back(connection, run, experiment.spec.retries)
            untaken = items.offered(connection, run.run_id, plan.concurrency)
    elif run.status is RunStatus.TERMINATING:
        reason = run.reason or "The run was killed."
        terminated = giving_up.terminate(connection, run, reason, TERMINATE_BATCH)
    archived = archiving.logged_items(connection, run, ARCHIVE_BATCH)
    archiving.archive(connection, run, archived)
    done = {one.key for one in archived}
    begun = plan.handed_out
    if plan.look_around and run.status in WORKING:
        # Others took the place of one that ended, without a word to the driver.
        begun = dispatching.worked_on(connection, run)
    showing.show_worked_on(connection, run, [one for one in begun if one not in done])
    more = not started or len(archived) == ARCHIVE_BATCH or len(terminated) == TERMINATE_BATCH
    ended = None
    if not more:
        stays_open = run.mode is RunMode.APPEND and experiment.spec.cron is None
        ended = ending.end(connection, run.run_id, at_ms, stays_open=stays_open)
        if ended is not None:
            if ended is RunStatus.TERMINATED and experiment.spec.cron is not None:
                # What was stopped does not start by itself again.
                appending.set_next_run(connection, run.experiment_id, None)
            leases.forget(connection, plan.held)
    return DriverStep(run, experiment, archived, len(terminated), taken_back, untaken, ended, more)


def _as_of_now(connection: StoreConnection, plan: RunPlan, at_ms: int) -> tuple[Run, Experiment]:
    """The run and its experiment as they are now: killed, out of time, changed."""
    run = runs.find_run(connection, plan.run.run_id)
    assert run is not None, "a run that is driven is never deleted"
    experiment = plan.experiment
    if plan.look_around:
        experiment = experiments.find_experiment(connection, run.experiment_id) or experiment
    if run.status is RunStatus.PENDING:
        runs.change_status(connection, run, RunStatus.PROCESSING, at_ms=at_ms)
    elif run.status in WORKING and _out_of_time(run, experiment, at_ms):
        limit = experiment.spec.time_limit_seconds
        reason = f"The run took longer than its time limit of {limit:g} seconds."
        runs.change_status(connection, run, RunStatus.TERMINATING, at_ms=at_ms, reason=reason)
    else:
        return run, experiment
    changed = runs.find_run(connection, run.run_id)
    assert changed is not None
    return changed, experiment


def _out_of_time(run: Run, experiment: Experiment, now_ms: int) -> bool:
    limit_seconds = experiment.spec.time_limit_seconds
    if limit_seconds is None or run.started_at_ms is None:
        return False
    return now_ms - run.started_at_ms > limit_seconds * 1000
