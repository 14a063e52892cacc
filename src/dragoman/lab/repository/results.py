"""Results as users read them: rows of turns, filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.errors import InvalidFilter
from dragoman.lab.filters import SCORE, AllOf, Condition, Filter, Not, OneOf, Op
from dragoman.lab.model import ExperimentId, ItemId, ResultRow, RunId, ScoreCell
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    item_run_log,
    target_record,
    turn_result,
    turn_run_log,
    turn_score,
)
from dragoman.lab.states import ItemStatus
from dragoman.store import Connection

Cell = tuple[str, str, int, int]
"""Which try of which turn of which item a score belongs to: run, item, turn, try."""

_SHOWN = ("item_id", "turn_no", "run_id", "try_no", "status", "target_record_id")
_SHOWN_ERRORS = ("error_code", "error_message")


class Place(msgspec.Struct, frozen=True):
    """Where a page of results ends: after a row, or, when they are sorted, after so many."""

    item_id: str = ""
    turn_no: int = -1
    offset: int = 0


class Sorting(msgspec.Struct, frozen=True):
    """One field that rows are sorted by; rows without a value come last."""

    field: str
    descending: bool = False


def shown_turns(experiment_id: ExperimentId, run_id: RunId | None) -> sa.Subquery:
    """The turns of an experiment as they stand, or as one of its runs left them."""
    if run_id is None:
        of = turn_result.c
        select = sa.select(*(of[name] for name in (*_SHOWN, *_SHOWN_ERRORS)))
        return select.where(of.experiment_id == experiment_id).subquery("shown")
    logged, items = turn_run_log.c, item_run_log.c
    select = sa.select(*(logged[name] for name in (*_SHOWN, *_SHOWN_ERRORS)))
    last_try = sa.and_(
        items.run_id == logged.run_id,
        items.item_id == logged.item_id,
        items.try_no == logged.try_no,
    )
    return select.join(item_run_log, last_try).where(logged.run_id == run_id).subquery("shown")


def matches(shown: sa.Subquery, wanted: Filter) -> sa.ColumnElement[bool]:
    """The filter as a condition on shown turns; SQL's own NULL does what missing values should."""
    match wanted:
        case AllOf(parts):
            return sa.and_(sa.true(), *(matches(shown, part) for part in parts))
        case OneOf(parts):
            return sa.or_(sa.false(), *(matches(shown, part) for part in parts))
        case Not(part):
            return sa.not_(matches(shown, part))
        case Condition(field, op, value):
            found: sa.ColumnElement[bool] = _OPERATORS[op](field_of(shown, field), value)
            return found


_OPERATORS: Mapping[Op, Any] = {
    Op.EQUAL: lambda column, value: column == value,
    Op.NOT_EQUAL: lambda column, value: column != value,
    Op.LESS: lambda column, value: column < value,
    Op.AT_MOST: lambda column, value: column <= value,
    Op.MORE: lambda column, value: column > value,
    Op.AT_LEAST: lambda column, value: column >= value,
    Op.IN: lambda column, value: column.in_(value),
    Op.NOT_IN: lambda column, value: column.not_in(value),
    Op.IS_NULL: lambda column, value: column.is_(None),
    Op.NOT_NULL: lambda column, value: column.is_not(None),
}


def field_of(shown: sa.Subquery, field: str) -> sa.ColumnElement[Any]:
    """The value of a field for each shown turn."""
    if field in ("item_id", "status", "error_code"):
        return shown.c[field]
    if field in ("latency_ms", "tokens", "cost"):
        record = target_record.c
        return (
            sa.select(record[field]).where(record.id == shown.c.target_record_id).scalar_subquery()
        )
    if field.startswith(SCORE):
        return (
            sa.select(evaluator_record.c.score)
            .join(turn_score, turn_score.c.evaluator_record_id == evaluator_record.c.id)
            .where(_is_score_of(shown), evaluator_record.c.name == field.removeprefix(SCORE))
            .scalar_subquery()
        )
    raise InvalidFilter(
        f"Results cannot be sorted by {field!r}; use item_id, status, error_code, latency_ms, "
        "tokens, cost or score.NAME."
    )


def scores_of(shown: sa.Subquery) -> sa.FromClause:
    """Shown turns joined with their scores."""
    return shown.join(turn_score, _is_score_of(shown)).join(
        evaluator_record, evaluator_record.c.id == turn_score.c.evaluator_record_id
    )


def _is_score_of(shown: sa.Subquery) -> sa.ColumnElement[bool]:
    return sa.and_(
        *(
            turn_score.c[name] == shown.c[name]
            for name in ("run_id", "item_id", "turn_no", "try_no")
        )
    )


def result_page(
    connection: Connection,
    shown: sa.Subquery,
    wanted: Filter,
    sorting: Sequence[Sorting],
    after: Place | None,
    most: int,
) -> tuple[list[ResultRow], Place | None]:
    """Some rows, and where the next ones begin, if there are more."""
    after = after or Place()
    select = _with_values(shown).where(matches(shown, wanted))
    order: list[sa.ColumnElement[Any]] = []
    for sort in sorting:
        value = field_of(shown, sort.field)
        order += [value.is_(None), value.desc() if sort.descending else value.asc()]
    if sorting:
        select = select.offset(after.offset)
    elif after.item_id:
        turn = sa.tuple_(shown.c.item_id, shown.c.turn_no)
        last = sa.tuple_(sa.literal(after.item_id), sa.literal(after.turn_no))
        select = select.where(turn > last)
    rows = connection.execute(
        select.order_by(*order, shown.c.item_id, shown.c.turn_no).limit(most + 1)
    ).all()
    page = rows[:most]
    if len(rows) <= most:
        return _rows(connection, page), None
    last_row = page[-1]
    place = Place(last_row.item_id, last_row.turn_no, after.offset + most)
    return _rows(connection, page), place


def rows_of_items(
    connection: Connection, experiment_id: ExperimentId, item_ids: Sequence[ItemId]
) -> list[ResultRow]:
    """Every turn of these items, as they stand."""
    shown = shown_turns(experiment_id, None)
    rows = connection.execute(
        _with_values(shown)
        .where(among(shown.c.item_id, "item_ids"))
        .order_by(shown.c.item_id, shown.c.turn_no),
        {"item_ids": as_list(item_ids)},
    ).all()
    return _rows(connection, rows)


def _with_values(shown: sa.Subquery) -> sa.Select[Any]:
    """Shown turns with what went in and what came out."""
    measures = [target_record.c[name] for name in ("output_json", "latency_ms", "tokens", "cost")]
    return (
        sa.select(shown, dataset_item.c.turns_json, *measures)
        .join(dataset_item, dataset_item.c.id == shown.c.item_id)
        .outerjoin(target_record, target_record.c.id == shown.c.target_record_id)
    )


def _rows(connection: Connection, rows: Sequence[sa.Row[Any]]) -> list[ResultRow]:
    scores = _scores(connection, rows)
    return [
        ResultRow(
            item_id=ItemId(row.item_id),
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
        )
        for row in rows
    ]


def _scores(
    connection: Connection, rows: Sequence[sa.Row[Any]]
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
                row.score, row.label, row.reason, row.error_code, row.error_message
            )
    return found
