"""Moves what workers logged to the tables that users see, inside the database."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemId, Run
from dragoman.lab.repository.dispatching import in_state
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import item_result, item_run_log, turn_result, turn_run_log
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import Connection

_log = item_run_log.c
_turns = turn_run_log.c

_WAITING = (
    sa.select(_log.item_id, _log.status)
    .where(*in_state(ResultState.LOGGED))
    # In the order of the index: by item alone, a database would rather read all rows of the run.
    .order_by(_log.status, _log.item_id)
    .limit(sa.bindparam("most"))
)
_LOGGED = _WAITING.with_for_update()

_SHOW_TURNS = (
    sa.update(turn_result)
    .where(
        turn_result.c.experiment_id == sa.bindparam("experiment"),
        among(turn_result.c.item_id, "item_ids"),
        _log.run_id == sa.bindparam("run"),
        _log.item_id == turn_result.c.item_id,
        _turns.run_id == sa.bindparam("run"),
        _turns.item_id == turn_result.c.item_id,
        _turns.turn_no == turn_result.c.turn_no,
        _turns.try_no == _log.try_no,
    )
    .values(
        run_id=_turns.run_id,
        try_no=_turns.try_no,
        status=_turns.status,
        target_record_id=_turns.target_record_id,
        error_code=_turns.error_code,
        error_message=_turns.error_message,
    )
)
"""The last try of each turn becomes what users see of it."""

_SHOW_ITEMS = (
    sa.update(item_result)
    .where(
        item_result.c.experiment_id == sa.bindparam("experiment"),
        among(item_result.c.item_id, "item_ids"),
        _log.run_id == sa.bindparam("run"),
        _log.item_id == item_result.c.item_id,
    )
    .values(run_id=_log.run_id, status=_log.status, try_no=_log.try_no)
)

_THESE = (_log.run_id == sa.bindparam("run"), among(_log.item_id, "item_ids"))

_CLOSE = (
    sa.update(item_run_log)
    .where(*_THESE)
    .values(result_state=ResultState.RESULTED.value, archived_try_no=_log.try_no)
)

_CLOSE_AS_FAILED = (
    sa.update(item_run_log)
    .where(*_THESE)
    .values(status=ItemStatus.FAIL.value, result_state=ResultState.RESULTED.value)
)

_SHOW_TURNS_FAILED = (
    sa.update(turn_result)
    .where(
        turn_result.c.experiment_id == sa.bindparam("experiment"),
        among(turn_result.c.item_id, "item_ids"),
    )
    .values(
        status=ItemStatus.FAIL.value,
        error_message="The result is in the run log, but moving it failed; the log says why.",
    )
)


class Logged(msgspec.Struct, frozen=True):
    """An item whose end is in the run log but not yet visible to users."""

    item_id: ItemId
    status: ItemStatus


def logged_items(connection: Connection, run: Run, most: int) -> list[Logged]:
    """Items that wait to be archived, locked until this transaction ends."""
    return _found(connection, run, most, _LOGGED)


def waiting_items(connection: Connection, run: Run, most: int) -> list[Logged]:
    """Items that wait to be archived, without a lock."""
    return _found(connection, run, most, _WAITING)


def _found(
    connection: Connection, run: Run, most: int, select: sa.Select[tuple[str, str]]
) -> list[Logged]:
    rows = connection.execute(select, {"run": run.run_id, "most": most}).all()
    return [Logged(ItemId(row.item_id), ItemStatus(row.status)) for row in rows]


def archive(connection: Connection, run: Run, logged: Sequence[Logged]) -> None:
    """Make the ends of these items visible; a try is moved once, however often this is called."""
    if logged:
        these = _these(run, [item.item_id for item in logged])
        for statement in (_SHOW_TURNS, _SHOW_ITEMS, _CLOSE):
            connection.execute(statement, these)


def give_up_archiving(
    connection: Connection, run: Run, item_id: ItemId, *, with_turns: bool
) -> None:
    """End an item whose result cannot be moved, so that it does not hold up the others."""
    these = _these(run, [item_id])
    for statement in (_CLOSE_AS_FAILED, _SHOW_ITEMS):
        connection.execute(statement, these)
    if with_turns:
        connection.execute(_SHOW_TURNS_FAILED, these)


def _these(run: Run, item_ids: Sequence[ItemId]) -> dict[str, str]:
    return {
        "experiment": run.experiment_id,
        "run": run.run_id,
        "item_ids": as_list(item_ids),
    }
