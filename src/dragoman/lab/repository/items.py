"""What a worker does with items: takes them, keeps its leases, hands them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import Item, ItemId, ItemKey, RunId, Turn
from dragoman.lab.repository.dispatching import UNRESERVED, WAITING, WORKED_ON, by_state
from dragoman.lab.repository.statements import (
    among,
    among_keys,
    as_keys,
    as_list,
    now_ms,
    update_many,
)
from dragoman.lab.repository.tables import dataset_item, item_run_log
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import StoreConnection

_log = item_run_log.c
_decoder = msgspec.json.Decoder(tuple[Mapping[str, object], ...])

_UNTAKEN = (*WORKED_ON, _log.lease_owner.is_(None))
_MINE = (
    _log.run_id == sa.bindparam("run"),
    _log.result_state == sa.literal(ResultState.INIT.value),
    _log.lease_owner == sa.bindparam("owner"),
)
_NEW_EXPIRY = now_ms() + sa.bindparam("lease_ms", type_=sa.BigInteger)

_THESE = among_keys(_log.item_id, _log.repetition, "keys")

_OFFERED = by_state(
    sa.select(_log.item_id, _log.repetition)
    .where(*_UNTAKEN)
    .order_by(_log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
)

_STILL_OFFERED = sa.select(_log.item_id, _log.repetition).where(*_UNTAKEN, _THESE)

_TO_BE_HAD = (
    sa.select(item_run_log)
    .where(*_UNTAKEN, _THESE)
    .order_by(_log.item_id, _log.repetition)
    .with_for_update(skip_locked=True)
)
"""Those that another worker is taking at this moment are left to it."""

_ANY_TO_BE_HAD = by_state(
    sa.select(item_run_log)
    .where(*_UNTAKEN)
    .order_by(_log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
    .with_for_update(skip_locked=True)
)

_NEXT = by_state(
    sa.select(item_run_log)
    .where(*WAITING, UNRESERVED)
    .order_by(_log.item_id, _log.repetition)
    .limit(sa.bindparam("most"))
    .with_for_update(skip_locked=True)
)

_SET_ASIDE = (
    update_many(item_run_log)
    .where(_log.run_id == sa.bindparam("run"), _THESE)
    .values(
        lease_owner=sa.bindparam("owner"),
        lease_token=_log.lease_token + 1,
        lease_expires_at=_NEW_EXPIRY,
    )
)
_BEGIN = _SET_ASIDE.values(status=ItemStatus.PROCESSING.value)

_TAKE = (
    update_many(item_run_log)
    .where(_log.run_id == sa.bindparam("run"), _THESE)
    .values(lease_owner=sa.bindparam("owner"), lease_expires_at=_NEW_EXPIRY)
)

_HELD = (
    sa.select(_log.item_id, _log.repetition, _log.lease_token)
    .where(*_MINE, _THESE)
    .order_by(_log.item_id, _log.repetition)
    .with_for_update()
)
_RENEW = (
    update_many(item_run_log)
    .where(_log.run_id == sa.bindparam("run"), _THESE)
    .values(lease_expires_at=_NEW_EXPIRY)
)

_GIVE_BACK = (
    sa.update(item_run_log)
    .where(
        _log.run_id == sa.bindparam("run"),
        _log.item_id == sa.bindparam("item"),
        _log.repetition == sa.bindparam("which"),
        _log.lease_owner == sa.bindparam("owner"),
        _log.lease_token == sa.bindparam("token"),
        _log.result_state == sa.literal(ResultState.INIT.value),
    )
    .values(lease_owner=None, lease_expires_at=None, lease_token=_log.lease_token + 1)
)

_ITEMS = sa.select(dataset_item.c.id, dataset_item.c.turns_json).where(
    among(dataset_item.c.id, "item_ids")
)


class Lease(msgspec.Struct, frozen=True):
    """An item that one worker holds; writes with an older token are refused."""

    run_id: RunId
    item_id: ItemId
    token: int
    try_no: int
    first_try_no: int
    lineage: str
    repetition: int = 0

    @property
    def key(self) -> ItemKey:
        return ItemKey(self.item_id, self.repetition)


def offered(connection: StoreConnection, run_id: RunId, most: int) -> list[ItemKey]:
    """Items of the run that were handed out and that no worker has taken."""
    rows = connection.execute(_OFFERED, {"run": run_id, "most": most})
    return [ItemKey(ItemId(row.item_id), row.repetition) for row in rows]


def untaken(connection: StoreConnection, run_id: RunId, keys: Sequence[ItemKey]) -> list[ItemKey]:
    """Those of the items that no worker has taken, locked by a transaction or not."""
    rows = connection.execute(_STILL_OFFERED, {"run": run_id, "keys": as_keys(keys)})
    return [ItemKey(ItemId(row.item_id), row.repetition) for row in rows]


def take(
    connection: StoreConnection, run_id: RunId, keys: Sequence[ItemKey], owner: str, lease_ms: int
) -> list[Lease]:
    """Take those of the items that are still free; a repeated hint takes them once."""
    asked = {"run": run_id, "keys": as_keys(keys)}
    return _taken(connection, run_id, connection.execute(_TO_BE_HAD, asked).all(), owner, lease_ms)


def take_any(
    connection: StoreConnection, run_id: RunId, most: int, owner: str, lease_ms: int
) -> list[Lease]:
    """Take up to so many of the run's items that are free and that no other worker is taking."""
    asked = {"run": run_id, "most": most}
    rows = connection.execute(_ANY_TO_BE_HAD, asked).all()
    return _taken(connection, run_id, rows, owner, lease_ms)


def take_next(
    connection: StoreConnection,
    run_id: RunId,
    owner: str,
    lease_ms: int,
    *,
    places: int,
    ahead: int,
) -> list[Lease]:
    """Take waiting items for places that became free in this transaction, then set some aside.

    Those that are set aside go on waiting, and count as such, until an item of the worker ends and
    the next takes its place, which `journaling` writes down together. No more items are worked on
    than before.
    """
    rows = connection.execute(_NEXT, {"run": run_id, "most": places + ahead}).all()
    for statement, some in ((_BEGIN, rows[:places]), (_SET_ASIDE, rows[places:])):
        if some:
            keys = as_keys(ItemKey(row.item_id, row.repetition) for row in some)
            which = {"run": run_id, "keys": keys, "owner": owner, "lease_ms": lease_ms}
            connection.execute(statement, which)
    return [_lease(run_id, row, row.lease_token + 1) for row in rows]


def _taken(
    connection: StoreConnection,
    run_id: RunId,
    rows: Sequence[sa.Row[Any]],
    owner: str,
    lease_ms: int,
) -> list[Lease]:
    if not rows:
        return []
    connection.execute(
        _TAKE,
        {
            "run": run_id,
            "keys": as_keys(ItemKey(row.item_id, row.repetition) for row in rows),
            "owner": owner,
            "lease_ms": lease_ms,
        },
    )
    return [_lease(run_id, row, row.lease_token) for row in rows]


def _lease(run_id: RunId, row: sa.Row[Any], token: int) -> Lease:
    return Lease(
        run_id=run_id,
        item_id=row.item_id,
        token=token,
        try_no=row.try_no,
        first_try_no=row.first_try_no,
        lineage=row.lineage,
        repetition=row.repetition,
    )


def renew(
    connection: StoreConnection, owner: str, leases: Sequence[Lease], lease_ms: int
) -> set[Lease]:
    """Renew these leases, and return those that the worker still has.

    Leases that it does not name run out: the worker has given them up.
    """
    by_run: dict[RunId, list[Lease]] = {}
    for one in leases:
        by_run.setdefault(one.run_id, []).append(one)
    kept: set[Lease] = set()
    for run_id, ours in sorted(by_run.items()):
        asked = {"run": run_id, "owner": owner, "keys": as_keys(one.key for one in ours)}
        tokens = {
            ItemKey(row.item_id, row.repetition): row.lease_token
            for row in connection.execute(_HELD, asked).all()
        }
        held = [one for one in ours if tokens.get(one.key) == one.token]
        these = {"run": run_id, "keys": as_keys(one.key for one in held)}
        connection.execute(_RENEW, {**these, "lease_ms": lease_ms})
        kept.update(held)
    return kept


def give_back(connection: StoreConnection, owner: str, leases: Sequence[Lease]) -> None:
    """Hand items back at once, untried, as a stopping worker does."""
    connection.execute(
        _GIVE_BACK,
        [
            {
                "run": one.run_id,
                "item": one.item_id,
                "which": one.repetition,
                "owner": owner,
                "token": one.token,
            }
            for one in leases
        ],
    )


def read_items(connection: StoreConnection, item_ids: Sequence[ItemId]) -> dict[ItemId, Item]:
    """The items with all their turns."""
    rows = connection.execute(_ITEMS, {"item_ids": as_list(item_ids)}).all()
    return {row.id: Item(row.id, turns_of(row.turns_json)) for row in rows}


def turns_of(text: str) -> tuple[Turn, ...]:
    """The turns of an item as they were stored."""
    decoded: tuple[Turn, ...] = _decoder.decode(text)  # type: ignore[assignment]
    return decoded
