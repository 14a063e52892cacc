"""What users see of items that have not ended: waiting, or being worked on.

A run that only scores again leaves what users see as it is until there is something new to show.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from dragoman.lab.model import ItemKey, Run
from dragoman.lab.repository.spans import Span
from dragoman.lab.repository.statements import among_keys, as_keys, insert_or_update, update_many
from dragoman.lab.repository.tables import dataset_item, item_result, item_run_log, turn_result
from dragoman.lab.states import ItemStatus, ResultState, RunMode
from dragoman.store import StoreConnection

_SHOWN = ["experiment_id", "tenant", "run_id", "status", "item_id", "repetition", "try_no"]

_SHOW_STATUS = [
    update_many(table)
    .where(
        table.c.experiment_id == sa.bindparam("experiment"),
        among_keys(table.c.item_id, table.c.repetition, "keys"),
    )
    .values(status=sa.bindparam("new_status"))
    for table in (item_result, turn_result)
]

_SHOW_WORKED_ON = [
    update_many(table)
    .where(
        table.c.experiment_id == sa.bindparam("experiment"),
        among_keys(table.c.item_id, table.c.repetition, "keys"),
        table.c.status != ItemStatus.PROCESSING.value,
        sa.exists().where(
            item_run_log.c.run_id == sa.bindparam("run"),
            item_run_log.c.item_id == table.c.item_id,
            item_run_log.c.repetition == table.c.repetition,
            item_run_log.c.result_state == ResultState.INIT.value,
            item_run_log.c.status == ItemStatus.PROCESSING.value,
        ),
    )
    .values(status=ItemStatus.PROCESSING.value)
    for table in (item_result, turn_result)
]


def show_queued(connection: StoreConnection, run: Run, span: Span) -> None:
    """Show the waiting items of the span, and their turns, as waiting in this run.

    Items of the span that are past waiting (they joined the run early) are left as they are.
    """
    if run.mode is RunMode.SCORE:
        return
    waiting = (
        item_run_log.c.run_id == run.run_id,
        item_run_log.c.result_state == ResultState.INIT,
        item_run_log.c.status == ItemStatus.QUEUEING,
        *span.covers(item_run_log.c.item_id),
    )
    shown: tuple[sa.ColumnElement[object], ...] = (
        sa.literal(run.experiment_id),
        sa.literal(run.tenant),
        sa.literal(run.run_id),
        sa.literal(ItemStatus.QUEUEING.value),
        item_run_log.c.item_id,
        item_run_log.c.repetition,
        item_run_log.c.try_no,
    )
    items = insert_or_update(
        connection.dialect,
        item_result,
        ("experiment_id", "item_id", "repetition"),
        ("run_id", "status", "try_no", "lineage"),
        [*_SHOWN, "lineage"],
        sa.select(*shown, item_run_log.c.lineage).where(*waiting),
    )
    connection.execute(items)
    source = item_run_log.join(dataset_item, dataset_item.c.id == item_run_log.c.item_id)
    turns_of = sa.select(sa.func.max(dataset_item.c.turn_count)).select_from(source).where(*waiting)
    for turn_no in range(connection.execute(turns_of).scalar() or 0):
        has_turn = sa.select(*shown, sa.literal(turn_no)).select_from(source)
        turns = insert_or_update(
            connection.dialect,
            turn_result,
            ("experiment_id", "item_id", "repetition", "turn_no"),
            ("run_id", "status", "try_no"),
            [*_SHOWN, "turn_no"],
            has_turn.where(*waiting, dataset_item.c.turn_count > turn_no),
            emptied=("target_record_id", "error_code", "error_message"),
        )
        connection.execute(turns)


def show_worked_on(connection: StoreConnection, run: Run, keys: Sequence[ItemKey]) -> None:
    """Show these items as worked on; those that have ended since are left as they are."""
    if not keys or run.mode is RunMode.SCORE:
        return
    which = {
        "experiment": run.experiment_id,
        "run": run.run_id,
        "keys": as_keys(keys),
    }
    for statement in _SHOW_WORKED_ON:
        connection.execute(statement, which)


def show_status(
    connection: StoreConnection, run: Run, keys: Sequence[ItemKey], status: ItemStatus
) -> None:
    """Show these items and their turns in another state, with no other change."""
    if not keys or run.mode is RunMode.SCORE:
        return
    which = {
        "experiment": run.experiment_id,
        "keys": as_keys(keys),
        "new_status": status.value,
    }
    for statement in _SHOW_STATUS:
        connection.execute(statement, which)
