"""Starts a run; the transaction that starts it also checks that it may start."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.errors import (
    BudgetExceeded,
    DatasetEmpty,
    ExperimentRunning,
    InvalidMessage,
    NotFound,
    QuotaExceeded,
)
from dragoman.ids import TenantId
from dragoman.lab.budgets import BUDGET_EXCEEDED, used_up
from dragoman.lab.experiments.asking import (
    balance_of,
    check_balance,
    quota_of,
    with_evaluators,
)
from dragoman.lab.model import EvaluatorSpec, Experiment, ExperimentId, ItemId, Run, RunId
from dragoman.lab.repository import (
    DueStart,
    Selection,
    appending,
    datasets,
    ending,
    experiments,
    quotas,
    runs,
    spending,
)
from dragoman.lab.states import ACTIVE, RunMode, RunStatus
from dragoman.settings import LabSettings
from dragoman.store import StoreConnection

UNKNOWN_SHOWN = 5
MAX_TRIAL_ITEMS = 2**31 - 1


class StartAsk(msgspec.Struct, frozen=True):
    """How an experiment is to be run."""

    mode: RunMode = RunMode.SUBMIT
    item_ids: tuple[str, ...] = ()
    """The items of retry_items, by the ids that users know."""
    trial_items: int | None = None
    evaluators: tuple[EvaluatorSpec, ...] = ()
    """The evaluators of score, new ones and others in place of former ones."""


SUBMIT = StartAsk()
APPEND = StartAsk(RunMode.APPEND)


class Timing(msgspec.Struct, frozen=True):
    """The times of an experiment that starts by itself."""

    due: DueStart | None = None
    """The time at which it starts now; None when a user starts it."""
    next_ms: int | None = None
    """When it starts again; None: not by itself."""


class NotDue(Exception):
    """Raised when another process has started the experiment at this time, or it runs."""


class Overtaken(Exception):
    """Raised when another process changed the experiment meanwhile; the caller looks again."""


class Started(msgspec.Struct, frozen=True):
    """The run that an experiment has now."""

    run_id: RunId
    joined: bool = False
    """Whether it was running already, and items were added to it."""


def check_ask(ask: StartAsk) -> None:
    """Refuse a start with missing or superfluous options."""
    if (ask.mode is RunMode.RETRY_ITEMS) != bool(ask.item_ids):
        raise InvalidMessage("item_ids belong to mode retry_items, which needs at least one.")
    if (ask.mode is RunMode.TRIAL) != (ask.trial_items is not None):
        raise InvalidMessage("trial_items belongs to mode trial, which needs it.")
    if (ask.mode is RunMode.SCORE) != bool(ask.evaluators):
        raise InvalidMessage(
            "evaluators belong to mode score, which needs at least one; POST "
            "/experiments/{id}/score takes them."
        )
    if ask.trial_items is not None and not 1 <= ask.trial_items <= MAX_TRIAL_ITEMS:
        raise InvalidMessage(
            f"trial_items is {ask.trial_items}; it must be from 1 to {MAX_TRIAL_ITEMS:,}."
        )


def start(
    connection: StoreConnection,
    tenant: TenantId,
    experiment_id: ExperimentId,
    ask: StartAsk,
    new: Run,
    settings: LabSettings,
    fingerprints_json: str,
    timing: Timing,
) -> Started:
    """Start a run, or join the one under way; an experiment never has two.

    Raises `Overtaken` when another process started or deleted it meanwhile, `NotDue` when its time
    has passed.
    """
    known = experiments.find_experiment(connection, experiment_id, tenant=tenant)
    if known is None:
        raise no_experiment(experiment_id)
    named = _named_items(connection, known, ask.item_ids)
    latest: Run | None = None
    if known.run_id is not None:
        # The run's row first, then the experiment's: the end of a run locks them in this order.
        latest = runs.find_run(connection, known.run_id, lock=True)
        if latest is not None and latest.status in ACTIVE:
            if timing.due is not None:
                raise NotDue
            return _join(connection, known, latest, ask, named)
    locked = experiments.find_experiment(connection, experiment_id, lock=True)
    if locked is None or locked.run_id != known.run_id:
        raise Overtaken
    _check_mode(locked, latest, ask.mode)
    if timing.due is None:
        appending.set_next_run(connection, experiment_id, timing.next_ms)
    elif timing.next_ms is None or not appending.pass_time(connection, timing.due, timing.next_ms):
        raise NotDue
    if ask.mode is not RunMode.APPEND:
        _check_dataset(connection, locked)
    _check_quota(connection, tenant, settings)
    _check_left(connection, locked, settings)
    spec = locked.spec
    if ask.mode is RunMode.SCORE:
        if locked.run_id is None:
            raise InvalidMessage(
                f"Experiment {experiment_id} has not been run, so there is no output to score; "
                "start a run first."
            )
        # With the run, in one transaction: a run has the evaluators that its experiment has.
        spec = with_evaluators(spec, ask.evaluators)
        experiments.update_spec(connection, experiment_id, spec)
    run = msgspec.structs.replace(new, item_ids=named, evaluators=spec.evaluators)
    due_ms = None if timing.due is None else timing.due.due_ms
    runs.insert_run(connection, run, fingerprints_json, due_ms)
    return Started(new.run_id)


def new_run(
    run_id: RunId, experiment: Experiment, ask: StartAsk, *, at_ms: int, embedded: bool
) -> Run:
    """A run as it is when it starts."""
    return Run(
        run_id=run_id,
        experiment_id=experiment.experiment_id,
        tenant=experiment.tenant,
        mode=ask.mode,
        status=RunStatus.PENDING,
        reason=None,
        item_ids=(),
        trial_items=ask.trial_items,
        start_cursor="",
        start_done=False,
        items=0,
        embedded=embedded,
        created_at_ms=at_ms,
        started_at_ms=None,
        ended_at_ms=None,
    )


def no_experiment(experiment_id: str) -> NotFound:
    return NotFound(
        f"No experiment has the id {experiment_id!r}; `dragoman experiment list` shows them."
    )


def _join(
    connection: StoreConnection,
    experiment: Experiment,
    run: Run,
    ask: StartAsk,
    named: Sequence[ItemId],
) -> Started:
    spec = experiment.spec
    wanted = Selection(spec.dataset_version_id, named=tuple(named), repetitions=spec.repetitions)
    # A run that only scores calls no target, so nothing can be tried again in it.
    can_join = ask.mode is RunMode.RETRY_ITEMS and run.mode is not RunMode.SCORE
    if can_join and ending.join(connection, run.run_id, wanted):
        return Started(run.run_id, joined=True)
    raise ExperimentRunning(
        f"Experiment {experiment.experiment_id} is {run.status}; wait for its end or kill it."
    )


def _named_items(
    connection: StoreConnection, experiment: Experiment, shown_ids: Sequence[str]
) -> tuple[ItemId, ...]:
    """The rows of the named items; an unknown item is refused."""
    version_id = experiment.spec.dataset_version_id
    if not shown_ids:
        return ()
    known = appending.known_own_items(connection, experiment.experiment_id, shown_ids)
    if version_id is not None:
        known |= datasets.known_items(connection, version_id, shown_ids)
    unknown = [one for one in shown_ids if one not in known]
    if unknown:
        shown = ", ".join(unknown[:UNKNOWN_SHOWN])
        raise NotFound(
            f"Experiment {experiment.experiment_id} has no item {shown}"
            f"{' and others' if len(unknown) > UNKNOWN_SHOWN else ''}."
        )
    return tuple(known[one] for one in dict.fromkeys(shown_ids))


def _check_dataset(connection: StoreConnection, experiment: Experiment) -> None:
    version_id = experiment.spec.dataset_version_id
    version = version_id and datasets.find_version(connection, experiment.tenant, version_id)
    if version and version.items:
        return
    if appending.has_own_items(connection, experiment.experiment_id):
        return
    if version_id is None:
        raise DatasetEmpty(
            f"Experiment {experiment.experiment_id} has no dataset and no items; start it in mode "
            "append and add items, or make one with a dataset."
        )
    raise DatasetEmpty(
        f"The dataset version {version_id} has no items; import a file that has some."
    )


def _check_mode(experiment: Experiment, latest: Run | None, mode: RunMode) -> None:
    """Refuse a mode in which an experiment that starts by itself cannot be started."""
    if experiment.spec.cron is None or mode is RunMode.APPEND:
        return
    stopped_by_budget = latest is not None and latest.stop_code == BUDGET_EXCEEDED
    if mode is RunMode.FAIL_RETRY and stopped_by_budget:
        return  # what was paid for is not paid for again
    raise InvalidMessage(
        f"Experiment {experiment.experiment_id} has cron, so it can only be started in mode "
        f"append, not {mode}; mode fail_retry goes on with a run that a budget stopped.",
        details={"field": "mode"},
    )


def _check_left(connection: StoreConnection, experiment: Experiment, settings: LabSettings) -> None:
    """Refuse a run of which nothing could be paid for."""
    check_balance(balance_of(connection, experiment.tenant, settings))
    spent = spending.spent_by_experiment(connection, experiment.experiment_id)
    used = used_up(experiment.spec.budget, spent)
    if used is not None:
        raise BudgetExceeded(
            f"Experiment {experiment.experiment_id} has used up {used} of its budget; raise the "
            "budget first."
        )


def _check_quota(connection: StoreConnection, tenant: TenantId, settings: LabSettings) -> None:
    running = runs.active_runs(connection, tenant)
    limits = quotas.find_quota(connection, tenant).over(quota_of(settings))
    running_max = limits.running_experiments
    if running_max is not None and running >= running_max:
        raise QuotaExceeded(
            f"{running} experiments of this tenant are running, and {running_max} may "
            "(lab.running_experiments, or the tenant's own limit); wait for one to end.",
            retry_after_ms=5_000,
        )
