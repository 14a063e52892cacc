"""Stored experiments."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import Experiment, ExperimentId, ExperimentSpec, RunId
from dragoman.lab.repository import removing
from dragoman.lab.repository.tables import experiment
from dragoman.lab.repository.usage import keep_usage_of_deleted
from dragoman.lab.states import RunStatus
from dragoman.store import StoreConnection


def insert_experiment(connection: StoreConnection, made: Experiment) -> None:
    """Store a new experiment; a name that is taken breaks a constraint."""
    connection.execute(
        sa.insert(experiment),
        {
            "id": made.experiment_id,
            "tenant": made.tenant,
            "name": made.spec.name,
            "dataset_version_id": made.spec.dataset_version_id,
            "spec_json": _encoded(made.spec),
            "status": made.status.value,
            "created_at_ms": made.created_at_ms,
        },
    )


def update_spec(
    connection: StoreConnection, experiment_id: ExperimentId, spec: ExperimentSpec
) -> None:
    """Change the description of an experiment."""
    connection.execute(
        sa.update(experiment)
        .where(experiment.c.id == experiment_id)
        .values(name=spec.name, spec_json=_encoded(spec))
    )


def find_experiment(
    connection: StoreConnection,
    experiment_id: str,
    *,
    tenant: TenantId | None = None,
    lock: bool = False,
) -> Experiment | None:
    """The experiment; with `lock`, no other transaction starts or ends it until this one ends."""
    select = sa.select(experiment).where(experiment.c.id == experiment_id)
    if tenant is not None:
        select = select.where(experiment.c.tenant == tenant)
    row = connection.execute(select.with_for_update() if lock else select).first()
    return None if row is None else _experiment(row)


def find_by_name(connection: StoreConnection, tenant: TenantId, name: str) -> Experiment | None:
    """The tenant's experiment of that name."""
    row = connection.execute(
        sa.select(experiment).where(experiment.c.tenant == tenant, experiment.c.name == name)
    ).first()
    return None if row is None else _experiment(row)


def list_experiments(
    connection: StoreConnection,
    tenant: TenantId,
    *,
    before: tuple[int, str] | None = None,
    most: int = 100,
) -> list[Experiment]:
    """The tenant's experiments, the latest first, from those made before `before` (time, id)."""
    select = sa.select(experiment).where(experiment.c.tenant == tenant)
    if before is not None:
        made = sa.tuple_(experiment.c.created_at_ms, experiment.c.id)
        select = select.where(made < sa.tuple_(sa.literal(before[0]), sa.literal(before[1])))
    latest = experiment.c.created_at_ms.desc(), experiment.c.id.desc()
    rows = connection.execute(select.order_by(*latest).limit(most))
    return [_experiment(row) for row in rows]


def delete_experiment(connection: StoreConnection, experiment_id: ExperimentId) -> None:
    """Delete the experiment; its runs and their rows are removed afterwards.

    Their usage stays stored: deleting gives a tenant nothing back.
    """
    keep_usage_of_deleted(connection, experiment_id)
    removing.begin(connection, removing.RemovedKind.EXPERIMENT, experiment_id)
    connection.execute(sa.delete(experiment).where(experiment.c.id == experiment_id))


def _encoded(spec: ExperimentSpec) -> str:
    return msgspec.json.encode(spec).decode()


def _experiment(row: sa.Row[Any]) -> Experiment:
    return Experiment(
        experiment_id=ExperimentId(row.id),
        tenant=TenantId(row.tenant),
        spec=msgspec.json.decode(row.spec_json, type=ExperimentSpec),
        status=RunStatus(row.status),
        reason=row.reason,
        run_id=None if row.run_id is None else RunId(row.run_id),
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        ended_at_ms=row.ended_at_ms,
        next_run_at_ms=row.next_run_at_ms,
    )
