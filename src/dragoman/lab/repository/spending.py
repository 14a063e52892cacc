"""What runs have used up, added up from the rows of the runs: no counter of its own can leak."""

from __future__ import annotations

import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.budgets import Spent
from dragoman.lab.model import ExperimentId
from dragoman.lab.repository.tables import experiment_stats
from dragoman.store import StoreConnection

_stats = experiment_stats.c
_SPENT = sa.select(
    sa.func.coalesce(sa.func.sum(_stats.tokens), 0).label("tokens"),
    sa.func.coalesce(sa.func.sum(_stats.cost), 0.0).label("cost"),
)


def spent_by_experiment(connection: StoreConnection, experiment_id: ExperimentId) -> Spent:
    """What all runs of an experiment have used up."""
    return _spent(connection, _stats.experiment_id == experiment_id)


def spent_by_tenant(connection: StoreConnection, tenant: TenantId) -> Spent:
    """What all runs of a tenant have used up, those of deleted experiments too."""
    return _spent(connection, _stats.tenant == tenant)


def _spent(connection: StoreConnection, which: sa.ColumnElement[bool]) -> Spent:
    row = connection.execute(_SPENT.where(which)).one()
    return Spent(int(row.tokens), float(row.cost))
