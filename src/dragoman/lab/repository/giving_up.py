"""Ends items that no worker will end: their run was killed, or their workers were lost."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from dragoman.lab.model import ItemId, ItemKey, Run
from dragoman.lab.repository.statements import among_keys, as_keys, now_ms, update_many
from dragoman.lab.repository.tables import item_run_log, turn_result, turn_run_log
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import StoreConnection

_log = item_run_log.c
_THESE = (_log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys"))

_OPEN_ITEMS = (
    sa.select(_log.item_id, _log.repetition)
    .where(
        _log.run_id == sa.bindparam("run"),
        _log.result_state == sa.literal(ResultState.INIT.value),
    )
    # In the order of the index, so that the items of the run that have ended are not read.
    .order_by(_log.status, _log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
    .with_for_update()
)

_UNTENDED_ITEMS = _OPEN_ITEMS.where(
    sa.or_(
        _log.status == sa.literal(ItemStatus.QUEUEING.value),
        _log.lease_owner.is_(None),
        _log.lease_expires_at < now_ms(),
    )
)
"""Open items that no worker holds."""

_LOG_TURNS = sa.insert(turn_run_log).from_select(
    [
        *("run_id", "item_id", "repetition", "turn_no", "try_no", "tenant", "status"),
        *("error_code", "error_message", "logged_at_ms"),
    ],
    sa.select(
        _log.run_id,
        _log.item_id,
        _log.repetition,
        turn_result.c.turn_no,
        _log.try_no,
        turn_result.c.tenant,
        sa.bindparam("new_status", type_=sa.String),
        sa.bindparam("error_code", type_=sa.String),
        sa.bindparam("message", type_=sa.Text),
        now_ms(),
    )
    .select_from(
        item_run_log.join(
            turn_result,
            sa.and_(
                turn_result.c.item_id == _log.item_id, turn_result.c.repetition == _log.repetition
            ),
        )
    )
    .where(*_THESE, turn_result.c.experiment_id == sa.bindparam("experiment")),
)

_LOG_ITEMS = (
    update_many(item_run_log)
    .where(*_THESE)
    .values(
        status=sa.bindparam("new_status"),
        result_state=ResultState.LOGGED.value,
        lease_token=_log.lease_token + 1,
        lease_owner=None,
        lease_expires_at=None,
    )
)


def terminate(connection: StoreConnection, run: Run, reason: str, most: int) -> list[ItemKey]:
    """End the open items of a killed run; workers that hold them are fenced off.

    If the run lets calls finish, items that a worker holds are left to it.
    """
    which = {"run": run.run_id, "most": most}
    ending = _UNTENDED_ITEMS if run.let_finish else _OPEN_ITEMS
    rows = connection.execute(ending, which).all()
    keys = [ItemKey(ItemId(row.item_id), row.repetition) for row in rows]
    code = run.stop_code or "CANCELLED"
    log_without_try(connection, run, keys, ItemStatus.TERMINATED, code, reason)
    return keys


def log_without_try(
    connection: StoreConnection,
    run: Run,
    keys: Sequence[ItemKey],
    status: ItemStatus,
    error_code: str,
    message: str,
) -> None:
    """Log an end for the try that these items were at, as if a worker had, and revoke them."""
    if not keys:
        return
    these = {"run": run.run_id, "keys": as_keys(keys), "new_status": status.value}
    connection.execute(
        _LOG_TURNS,
        {
            **these,
            "experiment": run.experiment_id,
            "error_code": error_code,
            "message": message,
        },
    )
    connection.execute(_LOG_ITEMS, these)
