"""The journal of workers: many entries in one transaction, each under its item's lease."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.model import ItemKey, RecordId, RunId
from dragoman.lab.repository.items import Lease
from dragoman.lab.repository.statements import (
    among,
    among_keys,
    as_keys,
    as_list,
    insert_new,
    update_many,
)
from dragoman.lab.repository.tables import (
    evaluator_record,
    experiment_stats,
    item_run_log,
    target_record,
    turn_run_log,
    turn_score,
)
from dragoman.lab.states import ItemStatus, ResultState
from dragoman.store import StoreConnection

_log = item_run_log.c


class OutputEntry(msgspec.Struct, frozen=True):
    """A target has answered a turn."""

    record_id: RecordId
    turn_no: int
    output_json: str
    main: str
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    cached: bool = False
    first_token_ms: float | None = None


class ScoreEntry(msgspec.Struct, frozen=True):
    """An evaluator has judged an output, or failed to."""

    record_id: RecordId
    turn_no: int
    name: str
    score: float | None = None
    label: str | None = None
    reason: str | None = None
    statistics_json: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    tokens: int | None = None
    """What the evaluator itself used up; it is counted to the run, not to the row."""
    cost: float | None = None


class TurnEntry(msgspec.Struct, frozen=True):
    """The outcome of one turn in a try."""

    turn_no: int
    status: ItemStatus
    target_record_id: RecordId | None
    error_code: str | None
    error_message: str | None
    scores: tuple[tuple[int, RecordId], ...]
    """The evaluator's number, and its record."""


class TryEntry(msgspec.Struct, frozen=True):
    """A try is over; `last` when the item has ended with it."""

    try_no: int
    status: ItemStatus
    last: bool
    turns: tuple[TurnEntry, ...]
    successor: Lease | None = None
    """The item that was set aside and has taken this one's place."""
    keeps_place: bool = False
    """Whether the worker waits for the next item in this one's place, with none set aside."""


class JournalEntry(msgspec.Struct, frozen=True):
    """One entry of a worker for an item that it holds."""

    tenant: TenantId
    lease: Lease
    what: OutputEntry | ScoreEntry | TryEntry


def write_entries(
    connection: StoreConnection, owner: str, entries: Sequence[JournalEntry], at_ms: int
) -> list[bool]:
    """Store the entries whose lease is still held; for each, whether it was stored.

    Entries that were stored before, by a write whose answer was lost, are not stored again.
    """
    tokens = _tokens_held(connection, owner, entries)
    held = [
        tokens.get((entry.lease.run_id, entry.lease.key)) == entry.lease.token for entry in entries
    ]
    rows = _Rows(at_ms)
    for entry, is_held in zip(entries, held, strict=True):
        if is_held:
            rows.add(entry)
            successor = _successor(entry)
            if successor and tokens.get((successor.run_id, successor.key)) == successor.token:
                rows.begin(successor)
    rows.write(connection)
    return held


def _tokens_held(
    connection: StoreConnection, owner: str, entries: Sequence[JournalEntry]
) -> dict[tuple[RunId, ItemKey], int]:
    """The tokens of the items that this worker holds, locked until this transaction ends."""
    by_run: dict[RunId, set[ItemKey]] = defaultdict(set)
    for entry in entries:
        by_run[entry.lease.run_id].add(entry.lease.key)
        if (successor := _successor(entry)) is not None:
            by_run[successor.run_id].add(successor.key)
    tokens: dict[tuple[RunId, ItemKey], int] = {}
    for run_id, keys in sorted(by_run.items()):
        which = {"run": run_id, "keys": as_keys(keys), "owner": owner}
        for row in connection.execute(_HELD, which).all():
            tokens[run_id, ItemKey(row.item_id, row.repetition)] = row.lease_token
    return tokens


def _successor(entry: JournalEntry) -> Lease | None:
    return entry.what.successor if isinstance(entry.what, TryEntry) else None


_NEW_ROWS = {
    dialect: {
        table: insert_new(dialect, table)
        for table in (target_record, evaluator_record, turn_run_log, turn_score)
    }
    for dialect in ("sqlite", "postgresql", "mysql")
}
"""Rows that may exist already; each has every column, in the table's order."""


class _Rows:
    """The rows of many entries, sorted by table."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms
        self._outputs: list[tuple[Any, ...]] = []
        self._scores: list[tuple[Any, ...]] = []
        self._turns: list[tuple[Any, ...]] = []
        self._links: list[tuple[Any, ...]] = []
        self._paid: list[tuple[RunId, OutputEntry | ScoreEntry]] = []
        self._items: dict[tuple[RunId, int, ItemStatus, ResultState], list[ItemKey]] = {}
        self._begun: dict[RunId, dict[ItemKey, None]] = {}

    def add(self, entry: JournalEntry) -> None:
        what = entry.what
        if isinstance(what, OutputEntry):
            self._add_output(entry, what)
        elif isinstance(what, ScoreEntry):
            self._add_score(entry, what)
        else:
            self._add_try(entry, what)

    def begin(self, successor: Lease) -> None:
        """Count an item as worked on from now, unless this write ends it, too."""
        self._begun.setdefault(successor.run_id, {})[successor.key] = None

    def write(self, connection: StoreConnection) -> None:
        if self._paid:
            self._pay(connection)
        for table, rows in (
            (target_record, self._outputs),
            (evaluator_record, self._scores),
            (turn_run_log, self._turns),
            (turn_score, self._links),
        ):
            if rows:
                connection.insert(_NEW_ROWS[connection.dialect][table], rows)
        for run_id, begun in sorted(self._begun.items()):
            if begun:
                connection.execute(_BEGIN, {"run": run_id, "keys": as_keys(begun)})
        for (run_id, try_no, status, state), keys in sorted(self._items.items()):
            which = {"run": run_id, "keys": as_keys(keys)}
            now = {"new_try": try_no, "new_status": status.value, "new_state": state.value}
            connection.execute(_ADVANCE, which | now)

    def _add_output(self, entry: JournalEntry, output: OutputEntry) -> None:
        lease = entry.lease
        self._outputs.append(
            (
                output.record_id,
                entry.tenant,
                lease.run_id,
                lease.item_id,
                lease.repetition,
                output.turn_no,
                output.output_json,
                output.main,
                output.latency_ms,
                output.tokens,
                output.cost,
                self._at_ms,
                output.cached,
                output.first_token_ms,
            )
        )
        if output.tokens or output.cost:
            self._paid.append((lease.run_id, output))

    def _add_score(self, entry: JournalEntry, score: ScoreEntry) -> None:
        self._scores.append(
            (
                score.record_id,
                entry.tenant,
                entry.lease.run_id,
                entry.lease.item_id,
                entry.lease.repetition,
                score.turn_no,
                score.name,
                score.score,
                score.label,
                score.reason,
                score.statistics_json,
                score.error_code,
                score.error_message,
                self._at_ms,
            )
        )
        if score.tokens or score.cost:
            self._paid.append((entry.lease.run_id, score))

    def _add_try(self, entry: JournalEntry, over: TryEntry) -> None:
        lease = entry.lease
        for turn in over.turns:
            key = (lease.run_id, lease.item_id, lease.repetition, turn.turn_no, over.try_no)
            self._turns.append(
                (
                    *key,
                    entry.tenant,
                    turn.status.value,
                    turn.target_record_id,
                    turn.error_code,
                    turn.error_message,
                    self._at_ms,
                )
            )
            self._links += [(*key, number, record_id) for number, record_id in turn.scores]
        # Most items end alike: those that do are changed by one statement.
        alike = (
            (lease.run_id, over.try_no, over.status, ResultState.LOGGED)
            if over.last
            else (lease.run_id, over.try_no + 1, ItemStatus.PROCESSING, ResultState.INIT)
        )
        self._items.setdefault(alike, []).append(lease.key)
        # One that took a place in this write was begun before.
        self._begun.get(lease.run_id, {}).pop(lease.key, None)

    def _pay(self, connection: StoreConnection) -> None:
        """Add what new outputs and scores used up to their runs, together with storing them."""
        ids = {"ids": as_list(paid.record_id for _, paid in self._paid)}
        known = {record for known in _KNOWN for record in connection.execute(known, ids).scalars()}
        used: dict[RunId, tuple[int, float]] = {}
        for run_id, paid in self._paid:
            if paid.record_id not in known:
                tokens, cost = used.get(run_id, (0, 0.0))
                used[run_id] = (tokens + (paid.tokens or 0), cost + (paid.cost or 0.0))
        for run_id, (tokens, cost) in sorted(used.items()):
            connection.execute(
                sa.update(experiment_stats)
                .where(experiment_stats.c.run_id == run_id)
                .values(
                    tokens=experiment_stats.c.tokens + tokens, cost=experiment_stats.c.cost + cost
                )
            )


_HELD = (
    sa.select(_log.item_id, _log.repetition, _log.lease_token)
    .where(
        _log.run_id == sa.bindparam("run"),
        among_keys(_log.item_id, _log.repetition, "keys"),
        _log.result_state == sa.literal(ResultState.INIT.value),
        _log.lease_owner == sa.bindparam("owner"),
    )
    .order_by(_log.item_id, _log.repetition)
    .with_for_update()
)

_KNOWN = [
    sa.select(table.c.id).where(among(table.c.id, "ids"))
    for table in (target_record, evaluator_record)
]

_BEGIN = (
    update_many(item_run_log)
    .where(_log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys"))
    .values(status=ItemStatus.PROCESSING.value)
)

_ADVANCE = (
    update_many(item_run_log)
    .where(_log.run_id == sa.bindparam("run"), among_keys(_log.item_id, _log.repetition, "keys"))
    .values(
        try_no=sa.bindparam("new_try"),
        status=sa.bindparam("new_status"),
        result_state=sa.bindparam("new_state"),
    )
)
"""The fence has been passed in this transaction, so the row is the worker's to change."""
