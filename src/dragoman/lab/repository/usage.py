"""The usage of tenants, which outlives the experiments that caused it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.statements import insert_new
from dragoman.lab.repository.tables import experiment_stats
from dragoman.store import StoreConnection

_COUNTS = ("queueing", "processing", "success", "fail", "terminated")


def keep_usage_of_run(
    connection: StoreConnection, experiment_id: ExperimentId, run_id: RunId
) -> None:
    """Add what a run used up, which is removed, to a row for all removed runs of its experiment."""
    stats = experiment_stats.c
    used = connection.execute(
        sa.select(stats.tenant, stats.tokens, stats.cost).where(stats.run_id == run_id)
    ).one_or_none()
    if used is None:
        return
    connection.execute(sa.delete(experiment_stats).where(stats.run_id == run_id))
    if used.tokens or used.cost:
        row_id = f"removed-{sha256(experiment_id.encode()).hexdigest()[:32]}"
        _add(connection, row_id, experiment_id, used)


def keep_usage_of_deleted(connection: StoreConnection, experiment_id: ExperimentId) -> None:
    """Replace the rows of an experiment that is deleted by one row for all of the tenant's.

    Otherwise every run that was ever made would leave a row behind for ever.
    """
    stats = experiment_stats.c
    used = connection.execute(
        sa.select(
            stats.tenant,
            sa.func.sum(stats.tokens).label("tokens"),
            sa.func.sum(stats.cost).label("cost"),
        )
        .where(stats.experiment_id == experiment_id)
        .group_by(stats.tenant)
    ).one_or_none()
    if used is None:
        return
    connection.execute(sa.delete(experiment_stats).where(stats.experiment_id == experiment_id))
    if not used.tokens and not used.cost:
        return
    row_id = _row_of(TenantId(used.tenant))
    _add(connection, row_id, row_id, used)


def _add(connection: StoreConnection, row_id: str, experiment_id: str, used: sa.Row[Any]) -> None:
    stats = experiment_stats.c
    empty = {
        "run_id": row_id,
        "experiment_id": experiment_id,
        "tenant": used.tenant,
        **dict.fromkeys(_COUNTS, 0),
        "tokens": 0,
        "cost": 0.0,
    }
    connection.execute(insert_new(connection.dialect, experiment_stats), empty)
    connection.execute(
        sa.update(experiment_stats)
        .where(stats.run_id == row_id)
        .values(tokens=stats.tokens + int(used.tokens), cost=stats.cost + float(used.cost))
    )


def _row_of(tenant: TenantId) -> str:
    """An id that no run has; a tenant's name may be longer than an id."""
    return f"deleted-{sha256(tenant.encode()).hexdigest()[:32]}"
