"""What runs have used up, added up from the rows of the runs: no counter of its own can leak."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.budgets import NO_BUDGET, Quota, Spent
from dragoman.lab.model import Budget, ExperimentId, RunId
from dragoman.lab.repository.tables import experiment, experiment_stats, quota, run_log
from dragoman.lab.states import WORKING
from dragoman.store import StoreConnection

_stats = experiment_stats.c
_SPENT = sa.select(
    sa.func.coalesce(sa.func.sum(_stats.tokens), 0).label("tokens"),
    sa.func.coalesce(sa.func.sum(_stats.cost), 0.0).label("cost"),
)

_LIMITS = (
    sa.select(run_log.c.status, experiment.c.spec_json, quota.c.tokens, quota.c.cost)
    .join(experiment, experiment.c.id == run_log.c.experiment_id)
    .outerjoin(quota, quota.c.tenant == run_log.c.tenant)
    .where(run_log.c.id == sa.bindparam("run"))
)


class _WithBudget(msgspec.Struct, frozen=True):
    """What is read of an experiment here."""

    budget: Budget = NO_BUDGET


def is_without_budget(connection: StoreConnection, run_id: RunId, settings: Quota) -> bool:
    """Whether a run may be worked on, and neither it nor its tenant has a budget."""
    row = connection.execute(_LIMITS, {"run": run_id}).first()
    if row is None or row.status not in WORKING:
        return False
    of_tenant = Quota(tokens=row.tokens, cost=row.cost).over(settings).balance
    of_experiment = msgspec.json.decode(row.spec_json, type=_WithBudget).budget
    return of_tenant == of_experiment == NO_BUDGET


def spent_by_experiment(connection: StoreConnection, experiment_id: ExperimentId) -> Spent:
    """What all runs of an experiment have used up."""
    return _spent(connection, _stats.experiment_id == experiment_id)


def spent_by_tenant(connection: StoreConnection, tenant: TenantId) -> Spent:
    """What all runs of a tenant have used up, those of deleted experiments too."""
    return _spent(connection, _stats.tenant == tenant)


def _spent(connection: StoreConnection, which: sa.ColumnElement[bool]) -> Spent:
    row = connection.execute(_SPENT.where(which)).one()
    return Spent(int(row.tokens), float(row.cost))
