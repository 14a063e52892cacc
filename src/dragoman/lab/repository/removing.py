"""Removes what users no longer see, a few rows in each transaction so that others get a turn."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa

from dragoman.lab.model import ExperimentId, RunId, VersionId
from dragoman.lab.repository import leases
from dragoman.lab.repository.leases import Held
from dragoman.lab.repository.statements import delete_some
from dragoman.lab.repository.tables import (
    annotation,
    dataset_audio,
    dataset_content,
    dataset_item,
    dataset_version,
    evaluator_record,
    experiment_aggregate,
    item_result,
    item_run_log,
    pending_removal,
    run_log,
    target_record,
    turn_result,
    turn_run_log,
    turn_score,
)
from dragoman.store import StoreConnection

ROWS_AT_ONCE = 5_000

IMPORTS = "import/"
"""The prefix of the leases of imports; the version's id follows."""


class RemovedKind(StrEnum):
    """What is removed."""

    EXPERIMENT = "experiment"
    VERSION = "version"
    RUN = "run"


def import_lease(version_id: VersionId) -> str:
    """The lease of the import of this version."""
    return f"{IMPORTS}{version_id}"


def begin(connection: StoreConnection, kind: RemovedKind, removed_id: str) -> None:
    """Note what to remove, in the transaction that makes it invisible."""
    connection.execute(sa.insert(pending_removal), {"kind": kind.value, "id": removed_id})


def pending(connection: StoreConnection) -> list[tuple[RemovedKind, str]]:
    """The removals that are not finished."""
    rows = connection.execute(sa.select(pending_removal).order_by(pending_removal.c.id))
    return [(RemovedKind(row.kind), row.id) for row in rows]


def remove_some(connection: StoreConnection, kind: RemovedKind, removed_id: str) -> bool:
    """Remove some of what is left; False when nothing is left and the removal is over."""
    if kind is RemovedKind.VERSION:
        left = _remove_items(connection, VersionId(removed_id))
    elif kind is RemovedKind.RUN:
        left = _remove_rows_of_run(connection, RunId(removed_id))
    else:
        left = _remove_of_experiment(connection, ExperimentId(removed_id))
    if not left:
        connection.execute(
            sa.delete(pending_removal).where(
                pending_removal.c.kind == kind.value, pending_removal.c.id == removed_id
            )
        )
    return left


def discard_some(
    connection: StoreConnection, held: Held, version_id: VersionId, lease_ms: int
) -> bool:
    """Remove some of what a failed import stored.

    False when nothing is left and the import's lease was removed.
    """
    leases.renew(connection, held, lease_ms)
    shown = sa.select(dataset_version.c.id).where(dataset_version.c.id == version_id)
    left = connection.execute(shown).first() is None and _remove_items(connection, version_id)
    if not left:
        leases.forget(connection, held)
    return left


def _remove_items(connection: StoreConnection, version_id: VersionId) -> bool:
    """Remove some items of a version, of their contents or of its audio; whether there were any."""
    content = dataset_content.c
    ordered = sa.select(content.content_id).where(content.version_id == version_id)
    last = connection.execute(_last(ordered.order_by(content.content_id))).scalar()
    if last is not None:
        connection.execute(
            sa.delete(dataset_content).where(
                content.version_id == version_id, content.content_id <= last
            )
        )
        return True
    items = dataset_item.c
    ordered = sa.select(items.id).where(items.version_id == version_id)
    last = connection.execute(_last(ordered.order_by(items.id))).scalar()
    if last is None:
        return _remove_audio(connection, version_id)
    connection.execute(
        sa.delete(dataset_item).where(items.version_id == version_id, items.id <= last)
    )
    return True


def _remove_audio(connection: StoreConnection, version_id: VersionId) -> bool:
    """Remove some of the notes of which audio a version has; whether there were any."""
    audio = dataset_audio.c
    ordered = sa.select(audio.sha256).where(audio.version_id == version_id)
    last = connection.execute(_last(ordered.order_by(audio.sha256))).scalar()
    if last is None:
        return False
    connection.execute(
        sa.delete(dataset_audio).where(audio.version_id == version_id, audio.sha256 <= last)
    )
    return True


def _remove_of_experiment(connection: StoreConnection, experiment_id: ExperimentId) -> bool:
    """Remove some of what an experiment left; whether there was anything."""
    first_run = sa.select(run_log.c.id).where(run_log.c.experiment_id == experiment_id).limit(1)
    run_id = connection.execute(first_run).scalar()
    if run_id is not None:
        _remove_of_run(connection, RunId(run_id))
        return True
    return any(
        _remove_by_item(connection, table, table.c.experiment_id == experiment_id)
        for table in (turn_result, item_result)
    ) or any(
        _remove_by_id(connection, table, table.c.experiment_id == experiment_id)
        for table in (annotation, dataset_item)
    )


def _remove_of_run(connection: StoreConnection, run_id: RunId) -> None:
    """Remove some of what a run left; the run itself when nothing else is left of it."""
    if _remove_rows_of_run(connection, run_id):
        return
    # The run first: its driver may be about to keep aggregates, and locks the run for that.
    connection.execute(sa.delete(run_log).where(run_log.c.id == run_id))
    connection.execute(
        sa.delete(experiment_aggregate).where(experiment_aggregate.c.run_id == run_id)
    )


def _remove_rows_of_run(connection: StoreConnection, run_id: RunId) -> bool:
    """Remove some of what a run logged; whether there was anything."""
    return any(
        _remove_by_item(connection, table, table.c.run_id == run_id)
        for table in (turn_score, turn_run_log, item_run_log)
    ) or any(
        _remove_by_id(connection, table, table.c.run_id == run_id)
        for table in (target_record, evaluator_record)
    )


def _remove_by_item(
    connection: StoreConnection, table: sa.Table, belongs: sa.ColumnElement[bool]
) -> bool:
    """Remove the rows of the first items, all rows of each; whether there were any."""
    ordered = sa.select(table.c.item_id).where(belongs).order_by(table.c.item_id)
    last = connection.execute(_last(ordered)).scalar()
    if last is None:
        return False
    connection.execute(sa.delete(table).where(belongs, table.c.item_id <= last))
    return True


def _last(ordered: sa.Select[tuple[str]]) -> sa.Select[tuple[str]]:
    """The last of the first rows."""
    first = ordered.limit(ROWS_AT_ONCE).subquery()
    return sa.select(sa.func.max(first.c[0]))


def _remove_by_id(
    connection: StoreConnection, table: sa.Table, belongs: sa.ColumnElement[bool]
) -> bool:
    """Remove some rows; whether there were any."""
    return delete_some(connection, table, [belongs], "id", ROWS_AT_ONCE) > 0
