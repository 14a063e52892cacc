"""Which experiments have been over for long, or are too many."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import ExperimentId
from dragoman.lab.repository.experiments import delete_experiment, find_experiment
from dragoman.lab.repository.runs import find_run
from dragoman.lab.repository.tables import experiment
from dragoman.lab.states import ENDED
from dragoman.store import StoreConnection

_of = experiment.c
_OVER = (
    _of.status.in_([status.value for status in sorted(ENDED)]),
    # One that starts by itself again is never over.
    _of.next_run_at_ms.is_(None),
)
_COLUMNS = (_of.id, _of.tenant, _of.name, _of.created_at_ms, _of.ended_at_ms)


class EndedExperiment(msgspec.Struct, frozen=True):
    """An experiment that is over."""

    experiment_id: ExperimentId
    tenant: TenantId
    name: str
    created_at_ms: int
    ended_at_ms: int


def ended_before(
    connection: StoreConnection, before_ms: int, after: EndedExperiment | None, most: int
) -> list[EndedExperiment]:
    """Experiments that ended before then, the oldest first, from those that come after one."""
    ordered = sa.select(*_COLUMNS).where(_of.ended_at_ms < before_ms, *_OVER)
    if after is not None:
        ordered = ordered.where(
            sa.or_(
                _of.ended_at_ms > after.ended_at_ms,
                sa.and_(_of.ended_at_ms == after.ended_at_ms, _of.id > after.experiment_id),
            ),
            _of.ended_at_ms >= after.ended_at_ms,
        )
    return _found(connection, ordered.order_by(_of.ended_at_ms, _of.id).limit(most))


def beyond_newest(
    connection: StoreConnection, tenant: TenantId, keep: int, most: int
) -> list[EndedExperiment]:
    """Experiments of a tenant that are over and older than the newest so many of these."""
    ordered = sa.select(*_COLUMNS).where(_of.tenant == tenant, *_OVER)
    newest_first = ordered.order_by(_of.created_at_ms.desc(), _of.id.desc())
    return _found(connection, newest_first.offset(keep).limit(most))


def next_tenant(connection: StoreConnection, after: str) -> TenantId | None:
    """The first tenant by name, after one, that has experiments."""
    ahead = sa.select(_of.tenant).where(_of.tenant > after).order_by(_of.tenant).limit(1)
    found = connection.execute(ahead).scalar()
    return None if found is None else TenantId(found)


def delete_if_over(connection: StoreConnection, found: EndedExperiment) -> bool:
    """Delete the experiment; False when it was started again or deleted meanwhile.

    What it has is removed afterwards, some rows at a time.
    """
    known = find_experiment(connection, found.experiment_id)
    if known is None:
        return False
    # The run's row first, then the experiment's: the end of a run locks them in this order.
    if known.run_id is not None:
        find_run(connection, known.run_id, lock=True)
    locked = find_experiment(connection, found.experiment_id, lock=True)
    if locked is None or locked.status not in ENDED or locked.ended_at_ms != found.ended_at_ms:
        return False
    delete_experiment(connection, found.experiment_id)
    return True


def _found(connection: StoreConnection, select: sa.Select[Any]) -> list[EndedExperiment]:
    return [
        EndedExperiment(
            experiment_id=ExperimentId(row.id),
            tenant=TenantId(row.tenant),
            name=row.name,
            created_at_ms=row.created_at_ms,
            ended_at_ms=row.ended_at_ms,
        )
        for row in connection.execute(select)
    ]
