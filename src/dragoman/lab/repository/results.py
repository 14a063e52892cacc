"""Results as users read them: rows of turns, filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import Filter
from dragoman.lab.model import ContentId, ExperimentId, ItemId, ResultRow, RunId, ScoreCell
from dragoman.lab.repository.fields import MEASURES, matches, shown_turns
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.ordering import Ordered, Place, Sorting
from dragoman.lab.repository.records import statistics_of
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    target_record,
    turn_score,
)
from dragoman.lab.states import ItemStatus
from dragoman.store import Connection

Cell = tuple[str, str, int, int]
"""Which try of which turn of which item a score belongs to: run, item, turn, try."""


def result_page(
    connection: Connection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
) -> tuple[list[ResultRow], Place | None]:
    """Some rows, and where the next ones begin, if there are more."""
    shown = shown_turns(experiment_id, run_id)
    ordered = Ordered(shown, matches(shown, wanted), sorting)
    page = ordered.page(after, most + 1)
    rows = connection.execute(_with_values(page).order_by(*ordered.order(page))).all()
    there_are_more = len(rows) > most
    rows = rows[:most]
    return _rows(connection, rows), ordered.place_of(rows[-1]) if there_are_more else None


def rows_of_items(
    connection: Connection,
    experiment_id: ExperimentId,
    item_ids: Sequence[ItemId],
    *,
    statistics: bool = False,
) -> list[ResultRow]:
    """Every turn of these items, as they stand; with the `statistics` of scores where asked for."""
    shown = shown_turns(experiment_id, None)
    rows = connection.execute(
        _with_values(shown)
        .where(among(shown.c.item_id, "item_ids"))
        .order_by(shown.c.item_id, shown.c.turn_no),
        {"item_ids": as_list(item_ids)},
    ).all()
    return _rows(connection, rows, statistics=statistics)


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
    connection: Connection, rows: Sequence[sa.Row[Any]], *, statistics: bool = False
) -> list[ResultRow]:
    scores = _scores(connection, rows, statistics=statistics)
    return [
        ResultRow(
            item_id=ContentId(row.content_id or row.item_id),
            turn=row.turn_no,
            run_id=RunId(row.run_id),
            status=ItemStatus(row.status),
            input=turns_of(row.turns_json)[row.turn_no],
            output={} if row.output_json is None else msgspec.json.decode(row.output_json),
            scores=scores.get((row.run_id, row.item_id, row.turn_no, row.try_no), {}),
            latency_ms=row.latency_ms,
            tokens=row.tokens,
            cost=row.cost,
            error_code=row.error_code,
            error_message=row.error_message,
            cached=bool(row.cached),
            first_token_ms=row.first_token_ms,
        )
        for row in rows
    ]


def _scores(
    connection: Connection, rows: Sequence[sa.Row[Any]], *, statistics: bool
) -> dict[Cell, dict[str, ScoreCell]]:
    links, records = turn_score.c, evaluator_record.c
    wanted: dict[str, set[str]] = {}
    for row in rows:
        wanted.setdefault(row.run_id, set()).add(row.item_id)
    found: dict[Cell, dict[str, ScoreCell]] = {}
    select = (
        sa.select(
            *(links.run_id, links.item_id, links.turn_no, links.try_no),
            *(records.name, records.score, records.label, records.reason),
            *(records.error_code, records.error_message),
            *((records.statistics_json,) if statistics else ()),
        )
        .join(evaluator_record, records.id == links.evaluator_record_id)
        .where(links.run_id == sa.bindparam("run_id"), among(links.item_id, "item_ids"))
        .order_by(links.evaluator_no)
    )
    for run_id, item_ids in wanted.items():
        listed = {"run_id": run_id, "item_ids": as_list(item_ids)}
        for row in connection.execute(select, listed):
            cell = (row.run_id, row.item_id, row.turn_no, row.try_no)
            found.setdefault(cell, {})[row.name] = ScoreCell(
                row.score,
                row.label,
                row.reason,
                row.error_code,
                row.error_message,
                statistics_of(row.statistics_json) if statistics else msgspec.UNSET,
            )
    return found
