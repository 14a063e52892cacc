"""Hands items out, and takes them back from workers that went silent."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemId, ItemKey, Run
from dragoman.lab.owners import is_gone
from dragoman.lab.repository.giving_up import log_without_try
from dragoman.lab.repository.showing import show_status
from dragoman.lab.repository.statements import (
    among,
    among_keys,
    as_keys,
    as_list,
    now_ms,
    update_many,
)
from dragoman.lab.repository.tables import item_run_log
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import StoreConnection

_log = item_run_log.c
_Scan = TypeVar("_Scan", bound=sa.Select[Any])


def in_state(
    result_state: ResultState, status: ItemStatus | None = None
) -> tuple[sa.ColumnElement[bool], ...]:
    """The rows of a run in one state, in the index's order; archived rows are left out."""
    run_and_state = (
        _log.run_id == sa.bindparam("run"),
        _log.result_state == sa.literal(result_state.value),
    )
    if status is None:
        return run_and_state
    return (*run_and_state, _log.status == sa.literal(status.value))


_STATES = "ix_item_run_log_run_id_result_state_status_item_id_repetition"


def by_state(scan: _Scan) -> _Scan:
    """The scan through the index of states.

    SQLite, which knows no numbers of rows, would rather go through every row of the run.
    """
    return scan.with_hint(item_run_log, f"INDEXED BY {_STATES}", dialect_name="sqlite")


WORKED_ON = in_state(ResultState.INIT, ItemStatus.PROCESSING)

_COUNT_WORKED_ON = by_state(sa.select(sa.func.count()).select_from(item_run_log).where(*WORKED_ON))

WAITING = in_state(ResultState.INIT, ItemStatus.QUEUEING)

UNRESERVED = sa.or_(_log.lease_owner.is_(None), _log.lease_expires_at < now_ms())
"""Waiting items that no worker has set aside for the places that it has."""

_ANY_WAITING = by_state(
    sa.select(_log.item_id).where(*WAITING).order_by(_log.item_id, _log.repetition).limit(1)
)

_NEXT_WAITING = by_state(
    sa.select(_log.item_id, _log.repetition)
    .where(*WAITING, UNRESERVED)
    .order_by(_log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
    .with_for_update(skip_locked=True)
)
"""Those that a worker is setting aside at this moment are left to it."""

_OWNERS = by_state(
    sa.select(_log.lease_owner).where(*WORKED_ON, _log.lease_owner.is_not(None)).distinct()
)

_WORKED_ON_KEYS = by_state(sa.select(_log.item_id, _log.repetition).where(*WORKED_ON))

_LAPSED = sa.or_(_log.lease_expires_at < now_ms(), among(_log.lease_owner, "gone"))
_LOOKS_EXPIRED = by_state(sa.select(_log.item_id, _log.repetition).where(*WORKED_ON, _LAPSED))
"""Without a lock: those that are worked on are locked by their workers at any time."""

_THESE = (_log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys"))

_EXPIRED = (
    sa.select(_log.item_id, _log.repetition, _log.try_no, _log.first_try_no)
    .where(
        *_THESE,
        _log.result_state == sa.literal(ResultState.INIT.value),
        _log.status == sa.literal(ItemStatus.PROCESSING.value),
        _LAPSED,
    )
    .order_by(_log.item_id, _log.repetition)
    .with_for_update()
)

_NEW_TOKEN = {
    "lease_token": _log.lease_token + 1,
    "lease_owner": None,
    "lease_expires_at": None,
}
"""Fences the item: its former worker can write nothing more."""

_HAND_OUT = (
    update_many(item_run_log)
    .where(*_THESE)
    .values(status=ItemStatus.PROCESSING.value, **_NEW_TOKEN)
)

_QUEUE_AGAIN = (
    update_many(item_run_log)
    .where(*_THESE)
    .values(status=ItemStatus.QUEUEING.value, try_no=_log.try_no + 1, **_NEW_TOKEN)
)


_FREE_RESERVED = (
    update_many(item_run_log).where(*WAITING, among(_log.lease_owner, "gone")).values(**_NEW_TOKEN)
)


def count_worked_on(connection: StoreConnection, run: Run) -> int:
    """How many items are worked on, or handed out to be."""
    return int(connection.execute(_COUNT_WORKED_ON, {"run": run.run_id}).scalar_one())


def dispatch(
    connection: StoreConnection, run: Run, concurrency: int, busy: int | None = None
) -> list[ItemKey]:
    """Hand out waiting items, in order, until so many are worked on at once.

    `busy`: how many were worked on, counted before the budget was looked at.

    An item handed out has no worker yet: any worker may take it, once. Users are shown it
    a moment later, so that the worker does not wait for that.
    """
    if busy is None:
        busy = count_worked_on(connection, run)
    if busy >= concurrency:
        return []
    which = {"run": run.run_id, "most": concurrency - busy}
    rows = connection.execute(_NEXT_WAITING, which).all()
    keys = [ItemKey(ItemId(row.item_id), row.repetition) for row in rows]
    if keys:
        connection.execute(_HAND_OUT, {"run": run.run_id, "keys": as_keys(keys)})
    return keys


def is_waiting(connection: StoreConnection, run: Run) -> bool:
    """Whether the run has items that wait to be handed out, or has not found all of its items."""
    if not run.start_done:
        return True
    return connection.execute(_ANY_WAITING, {"run": run.run_id}).first() is not None


def worked_on(connection: StoreConnection, run: Run) -> list[ItemKey]:
    """The items that are worked on, or handed out to be."""
    rows = connection.execute(_WORKED_ON_KEYS, {"run": run.run_id})
    return [ItemKey(ItemId(row.item_id), row.repetition) for row in rows]


class TakenBack(msgspec.Struct, frozen=True):
    """What happened to the items of silent workers."""

    queued: tuple[ItemKey, ...]
    lost: tuple[ItemKey, ...]
    """Without a try left: they failed."""


def take_back(connection: StoreConnection, run: Run, retries: int) -> TakenBack:
    """Take back the items whose lease has run out, or whose worker is known to have ended.

    They are tried again, or have failed. A long item whose worker renews is left alone, however
    long it takes.
    """
    owners = connection.execute(_OWNERS, {"run": run.run_id}).scalars()
    ended = [owner for owner in owners if is_gone(owner)]
    gone = as_list(ended)
    if ended:
        connection.execute(_FREE_RESERVED, {"run": run.run_id, "gone": gone})
    which = {"run": run.run_id, "gone": gone}
    lapsed = [
        ItemKey(ItemId(row.item_id), row.repetition)
        for row in connection.execute(_LOOKS_EXPIRED, which)
    ]
    if not lapsed:
        return TakenBack((), ())
    expired = connection.execute(_EXPIRED, which | {"keys": as_keys(lapsed)}).all()
    queued: list[ItemKey] = []
    lost: list[ItemKey] = []
    for row in expired:
        is_left = row.try_no - row.first_try_no < retries
        (queued if is_left else lost).append(ItemKey(row.item_id, row.repetition))
    if queued:
        connection.execute(_QUEUE_AGAIN, {"run": run.run_id, "keys": as_keys(queued)})
        show_status(connection, run, queued, ItemStatus.QUEUEING)
    log_without_try(
        connection,
        run,
        lost,
        ItemStatus.FAIL,
        "WORKER_LOST",
        "Every worker that took this item went silent; find out what ends them.",
    )
    return TakenBack(tuple(queued), tuple(lost))
