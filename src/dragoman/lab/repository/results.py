"""Results as users read them: rows of turns, filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import Filter
from dragoman.lab.model import ContentId, ExperimentId, ItemKey, ResultRow, RunId, ScoreCell
from dragoman.lab.repository.fields import MEASURES, Numbers, is_meant, matches, shown_turns
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.ordering import Ordered, Place, Sorting
from dragoman.lab.repository.records import statistics_of
from dragoman.lab.repository.statements import among_keys, as_keys
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    target_record,
    turn_score,
)
from dragoman.lab.states import ItemStatus
from dragoman.store import Connection

Cell = tuple[str, str, int, int, int]
"""Which try of which turn a score belongs to: run, item, repetition, turn, try."""


def result_page(
    connection: Connection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
    numbers: Numbers = None,
) -> tuple[list[ResultRow], Place | None]:
    """Some rows, and where the next ones begin, if there are more."""
    shown = shown_turns(experiment_id, run_id)
    ordered = Ordered(shown, matches(shown, wanted, numbers), sorting, numbers)
    page = ordered.page(after, most + 1)
    rows = connection.execute(_with_values(page).order_by(*ordered.order(page))).all()
    there_are_more = len(rows) > most
    rows = rows[:most]
    return _rows(connection, rows, numbers), ordered.place_of(rows[-1]) if there_are_more else None


def rows_of_items(
    connection: Connection,
    experiment_id: ExperimentId,
    keys: Sequence[ItemKey],
    numbers: Numbers = None,
    *,
    statistics: bool = False,
) -> list[ResultRow]:
    """Every turn of these repetitions, as they stand; with the `statistics` of scores if asked."""
    shown = shown_turns(experiment_id, None)
    rows = connection.execute(
        _with_values(shown)
        .where(among_keys(shown.c.item_id, shown.c.repetition, "keys"))
        .order_by(shown.c.item_id, shown.c.repetition, shown.c.turn_no),
        {"keys": as_keys(keys)},
    ).all()
    return _rows(connection, rows, numbers, statistics=statistics)


def _with_values(shown: sa.Subquery) -> sa.Select[Any]:
    """Shown turns with what went in and what came out."""
    told = ("output_json", "cached", "first_token_ms", *MEASURES)
    measures = [target_record.c[name] for name in told]
    return (
        sa.select(shown, dataset_item.c.turns_json, dataset_item.c.content_id, *measures)
        .join(dataset_item, dataset_item.c.id == shown.c.item_id)
        .outerjoin(target_record, target_record.c.id == shown.c.target_record_id)
    )


def _rows(
    connection: Connection,
    rows: Sequence[sa.Row[Any]],
    numbers: Numbers,
    *,
    statistics: bool = False,
) -> list[ResultRow]:
    scores = _scores(connection, rows, numbers, statistics=statistics)
    return [
        ResultRow(
            item_id=ContentId(row.content_id or row.item_id),
            turn=row.turn_no,
            run_id=RunId(row.run_id),
            status=ItemStatus(row.status),
            input=turns_of(row.turns_json)[row.turn_no],
            output={} if row.output_json is None else msgspec.json.decode(row.output_json),
            scores=scores.get(_cell(row), {}),
            latency_ms=row.latency_ms,
            tokens=row.tokens,
            cost=row.cost,
            error_code=row.error_code,
            error_message=row.error_message,
            repetition=row.repetition + 1,
            cached=bool(row.cached),
            first_token_ms=row.first_token_ms,
        )
        for row in rows
    ]


def _scores(
    connection: Connection, rows: Sequence[sa.Row[Any]], numbers: Numbers, *, statistics: bool
) -> dict[Cell, dict[str, ScoreCell]]:
    links, records = turn_score.c, evaluator_record.c
    wanted: dict[str, set[ItemKey]] = {}
    for row in rows:
        wanted.setdefault(row.run_id, set()).add(ItemKey(row.item_id, row.repetition))
    found: dict[Cell, dict[str, ScoreCell]] = {}
    select = (
        sa.select(
            *(links.run_id, links.item_id, links.repetition, links.turn_no, links.try_no),
            *(records.name, records.score, records.label, records.reason),
            *(records.error_code, records.error_message),
            *((records.statistics_json,) if statistics else ()),
        )
        .join(evaluator_record, records.id == links.evaluator_record_id)
        .where(
            links.run_id == sa.bindparam("run_id"),
            among_keys(links.item_id, links.repetition, "keys"),
            is_meant(numbers),
        )
        .order_by(links.evaluator_no)
    )
    for run_id, keys in wanted.items():
        listed = {"run_id": run_id, "keys": as_keys(keys)}
        for row in connection.execute(select, listed):
            found.setdefault(_cell(row), {})[row.name] = ScoreCell(
                row.score,
                row.label,
                row.reason,
                row.error_code,
                row.error_message,
                statistics_of(row.statistics_json) if statistics else msgspec.UNSET,
            )
    return found


def _cell(row: sa.Row[Any]) -> Cell:
    return row.run_id, row.item_id, row.repetition, row.turn_no, row.try_no
