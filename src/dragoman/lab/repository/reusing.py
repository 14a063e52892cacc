"""Outputs and scores of earlier tries and runs, which are reused instead of made again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ExperimentId, Item, ItemKey, JsonValue
from dragoman.lab.repository.items import Lease
from dragoman.lab.repository.records import (
    evaluator_record_id,
    lineage_from,
    statistics_of,
    target_record_id,
)
from dragoman.lab.repository.statements import among, among_keys, as_keys, as_list
from dragoman.lab.repository.tables import evaluator_record, target_record, turn_result
from dragoman.store import StoreConnection

NOT_CALLED = "CANCELLED"


class StoredOutput(msgspec.Struct, frozen=True):
    """An output as it was written down."""

    columns: Mapping[str, JsonValue]
    main: str
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    cached: bool = False
    first_token_ms: float | None = None


class StoredScore(msgspec.Struct, frozen=True):
    """A score as it was written down."""

    score: float | None
    label: str | None
    reason: str | None
    statistics: tuple[float, ...] | None


class Leftovers(msgspec.Struct, frozen=True):
    """What can be reused for one item: outputs by turn, scores by turn and evaluator."""

    outputs: dict[int, StoredOutput]
    scores: dict[int, dict[int, StoredScore]]
    failures: dict[int, tuple[str, str]] = {}
    """Why turns have no output, by turn: code and message. Only where targets are not called."""


def leftovers(
    connection: StoreConnection, taken: Sequence[tuple[Lease, Item]], numbers: Collection[int]
) -> list[Leftovers]:
    """For each item, in order, what can be reused; `numbers` are those of the evaluators."""
    asked = [(lease, item) if not _is_fresh(lease) else None for lease, item in taken]
    turns = [
        target_record_id(lease.lineage, lease.key, turn_no)
        for pair in asked
        if pair is not None
        for lease, item in (pair,)
        for turn_no in range(len(item.turns))
    ]
    outputs = _by_id(connection, target_record, turns)
    scores = _by_id(
        connection,
        evaluator_record,
        [f"{record_id}/{number}" for record_id in outputs for number in numbers],
    )
    return [_of_item(lease, item, outputs, scores, numbers) for lease, item in taken]


def with_failures(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    taken: Sequence[tuple[Lease, Item]],
    left: Sequence[Leftovers],
) -> list[Leftovers]:
    """The same, with why each turn without an output has none, as users see it."""
    shown = turn_result.c
    rows = connection.execute(
        sa.select(
            shown.item_id, shown.repetition, shown.turn_no, shown.error_code, shown.error_message
        ).where(
            shown.experiment_id == experiment_id,
            among_keys(shown.item_id, shown.repetition, "keys"),
        ),
        {"keys": as_keys(lease.key for lease, _ in taken)},
    )
    told = {
        (ItemKey(row.item_id, row.repetition), row.turn_no): (
            row.error_code or NOT_CALLED,
            row.error_message or "The run that called the target ended before this turn.",
        )
        for row in rows
    }
    return [
        msgspec.structs.replace(
            found,
            failures={
                turn_no: told.get((lease.key, turn_no), (NOT_CALLED, "It has no output."))
                for turn_no in range(len(item.turns))
                if turn_no not in found.outputs
            },
        )
        for (lease, item), found in zip(taken, left, strict=True)
    ]


def _is_fresh(lease: Lease) -> bool:
    """Whether nothing can have been done on the item yet."""
    return lease.token == 1 and lease.lineage == lineage_from(lease.run_id, lease.try_no)


def _by_id(
    connection: StoreConnection, table: sa.Table, ids: Sequence[str]
) -> dict[str, sa.Row[Any]]:
    if not ids:
        return {}
    wanted = sa.select(table).where(among(table.c.id, "ids"))
    return {row.id: row for row in connection.execute(wanted, {"ids": as_list(ids)}).all()}


def _of_item(
    lease: Lease,
    item: Item,
    outputs: Mapping[str, sa.Row[Any]],
    scores: Mapping[str, sa.Row[Any]],
    numbers: Collection[int],
) -> Leftovers:
    left = Leftovers({}, {})
    for turn_no in range(len(item.turns)):
        output = outputs.get(target_record_id(lease.lineage, lease.key, turn_no))
        if output is None:
            continue
        left.outputs[turn_no] = StoredOutput(
            msgspec.json.decode(output.output_json),
            output.main,
            output.latency_ms,
            output.tokens,
            output.cost,
            bool(output.cached),
            output.first_token_ms,
        )
        for number in numbers:
            said = scores.get(evaluator_record_id(lease.lineage, lease.key, turn_no, number))
            if said is not None:
                left.scores.setdefault(turn_no, {})[number] = StoredScore(
                    said.score, said.label, said.reason, statistics_of(said.statistics_json)
                )
    return left
