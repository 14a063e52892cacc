"""Moves what workers logged to the tables that users see, inside the database."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemId, ItemKey, Run
from dragoman.lab.repository.dispatching import by_state, in_state
from dragoman.lab.repository.statements import among_keys, as_keys, update_many
from dragoman.lab.repository.tables import item_result, item_run_log, turn_result, turn_run_log
from dragoman.lab.states import ItemStatus, ResultState, RunMode
from dragoman.store import StoreConnection

_log = item_run_log.c
_turns = turn_run_log.c

_WAITING = by_state(
    sa.select(_log.item_id, _log.repetition, _log.status)
    .where(*in_state(ResultState.LOGGED))
    # In the order of the index: by item alone, a database would rather read all rows of the run.
    .order_by(_log.status, _log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
)
_LOGGED = _WAITING.with_for_update(skip_locked=True)
"""Those that a worker is logging at this moment come with the next step."""

_TURNS_OF_LAST_TRY = (
    turn_result.c.experiment_id == sa.bindparam("experiment"),
    among_keys(turn_result.c.item_id, turn_result.c.repetition, "keys"),
    _log.run_id == sa.bindparam("run"),
    _log.item_id == turn_result.c.item_id,
    _log.repetition == turn_result.c.repetition,
    _turns.run_id == sa.bindparam("run"),
    _turns.item_id == turn_result.c.item_id,
    _turns.repetition == turn_result.c.repetition,
    _turns.turn_no == turn_result.c.turn_no,
    _turns.try_no == _log.try_no,
)

_ITEMS_OF_LAST_TRY = (
    item_result.c.experiment_id == sa.bindparam("experiment"),
    among_keys(item_result.c.item_id, item_result.c.repetition, "keys"),
    _log.run_id == sa.bindparam("run"),
    _log.item_id == item_result.c.item_id,
    _log.repetition == item_result.c.repetition,
)

_SHOW_TURNS = (
    sa.update(turn_result)
    .where(*_TURNS_OF_LAST_TRY)
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
    .where(*_ITEMS_OF_LAST_TRY)
    .values(run_id=_log.run_id, status=_log.status, try_no=_log.try_no)
)

_MARK_TURNS = (
    sa.update(turn_result)
    .where(*_TURNS_OF_LAST_TRY)
    .values(status=_turns.status, error_code=_turns.error_code, error_message=_turns.error_message)
)
_MARK_ITEMS = sa.update(item_result).where(*_ITEMS_OF_LAST_TRY).values(status=_log.status)
"""Users see that something is missing, and go on seeing the outputs and scores of before."""

_THESE = (_log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys"))

_WITHOUT_OUTPUT = (
    sa.select(_log.item_id, _log.repetition)
    .join(
        turn_run_log,
        sa.and_(
            _turns.run_id == _log.run_id,
            _turns.item_id == _log.item_id,
            _turns.repetition == _log.repetition,
            _turns.try_no == _log.try_no,
            _turns.turn_no == 0,
        ),
    )
    .where(*_THESE, _turns.target_record_id.is_(None))
)

_CLOSE = (
    update_many(item_run_log)
    .where(*_THESE)
    .values(result_state=ResultState.RESULTED.value, archived_try_no=_log.try_no)
)

_CLOSE_AS_FAILED = (
    update_many(item_run_log)
    .where(*_THESE)
    .values(status=ItemStatus.FAIL.value, result_state=ResultState.RESULTED.value)
)

_SHOW_TURNS_FAILED = (
    update_many(turn_result)
    .where(
        turn_result.c.experiment_id == sa.bindparam("experiment"),
        among_keys(turn_result.c.item_id, turn_result.c.repetition, "keys"),
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
    repetition: int = 0

    @property
    def key(self) -> ItemKey:
        return ItemKey(self.item_id, self.repetition)


def logged_items(connection: StoreConnection, run: Run, most: int) -> list[Logged]:
    """Items that wait to be archived, locked until this transaction ends."""
    return _found(connection, run, most, _LOGGED)


def waiting_items(connection: StoreConnection, run: Run, most: int) -> list[Logged]:
    """Items that wait to be archived, without a lock."""
    return _found(connection, run, most, _WAITING)


def _found(
    connection: StoreConnection, run: Run, most: int, select: sa.Select[tuple[str, int, str]]
) -> list[Logged]:
    rows = connection.execute(select, {"run": run.run_id, "most": most}).all()
    return [Logged(ItemId(row.item_id), ItemStatus(row.status), row.repetition) for row in rows]


def archive(connection: StoreConnection, run: Run, logged: Sequence[Logged]) -> None:
    """Make the ends of these items visible; a try is moved once, however often this is called."""
    given_up = _given_up(connection, run, logged) if run.mode is RunMode.SCORE else set()
    shown = [item.key for item in logged if item.key not in given_up]
    for keys, statements in (
        (shown, (_SHOW_TURNS, _SHOW_ITEMS, _CLOSE)),
        (sorted(given_up), (_MARK_TURNS, _MARK_ITEMS, _CLOSE)),
    ):
        if keys:
            these = _these(run, keys)
            for statement in statements:
                connection.execute(statement, these)


def _given_up(connection: StoreConnection, run: Run, logged: Sequence[Logged]) -> set[ItemKey]:
    """Those that a run that only scores ended without a look at their outputs.

    It was killed first, or every worker was lost: the item has the output, and its try has not.
    """
    if not logged:
        return set()
    rows = connection.execute(_WITHOUT_OUTPUT, _these(run, [item.key for item in logged]))
    return {ItemKey(ItemId(row.item_id), row.repetition) for row in rows}


def give_up_archiving(
    connection: StoreConnection, run: Run, key: ItemKey, *, with_turns: bool
) -> None:
    """End an item whose result cannot be moved, so that it does not hold up the others."""
    these = _these(run, [key])
    for statement in (_CLOSE_AS_FAILED, _SHOW_ITEMS):
        connection.execute(statement, these)
    if with_turns:
        connection.execute(_SHOW_TURNS_FAILED, these)


def _these(run: Run, keys: Sequence[ItemKey]) -> dict[str, str]:
    return {
        "experiment": run.experiment_id,
        "run": run.run_id,
        "keys": as_keys(keys),
    }
