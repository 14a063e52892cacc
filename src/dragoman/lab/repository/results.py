"""Results as users read them: rows of turns, filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import MEASURES, Filter
from dragoman.lab.model import ContentId, ExperimentId, ItemId, ResultRow, RunId, ScoreCell
from dragoman.lab.repository.fields import matches, shown_turns
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.ordering import Ordered, Place, Sorting
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    annotation,
    dataset_item,
    evaluator_record,
    target_record,
    turn_score,
)
from dragoman.lab.states import ItemStatus
from dragoman.store import Connection

Cell = tuple[str, str, int, int]
"""Which try of which turn of which item a score belongs to: run, item, turn, try."""

ITEMS_AT_ONCE = 1_000

_statistics = msgspec.json.Decoder(tuple[float, ...])


class Annotated(msgspec.Struct, frozen=True):
    """The latest judgement of a person under one name."""

    score: float | None
    label: str | None


class WholeTurn(msgspec.Struct, frozen=True):
    """A turn as users see it, with what only the lab knows of it."""

    item_id: ItemId
    row: ResultRow
    statistics: Mapping[str, tuple[float, ...]]
    """The sufficient statistics of each score that has them."""
    annotations: Mapping[str, Annotated]
    answered: bool
    """Whether the target gave an output."""
    repetition: int = 0
    """Counted from 0; users count from 1."""


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
    ordered = Ordered(shown, matches(shown, wanted), sorting, connection.dialect)
    page = ordered.page(after, most + 1)
    rows = connection.execute(_with_values(page).order_by(*ordered.order(page))).all()
    there_are_more = len(rows) > most
    rows = rows[:most]
    turns = _turns(connection, experiment_id, rows)
    return [turn.row for turn in turns], ordered.place_of(rows[-1]) if there_are_more else None


def rows_of_items(
    connection: Connection, experiment_id: ExperimentId, item_ids: Sequence[ItemId]
) -> list[ResultRow]:
    """Every turn of these items, as they stand."""
    return [turn.row for turn in whole_turns(connection, experiment_id, item_ids)]


def whole_turns(
    connection: Connection,
    experiment_id: ExperimentId,
    item_ids: Sequence[ItemId],
    run_id: RunId | None = None,
) -> list[WholeTurn]:
    """Every turn of these items, in order, as they stand or as a run left them."""
    shown = shown_turns(experiment_id, run_id)
    rows = connection.execute(
        _with_values(shown)
        .where(among(shown.c.item_id, "item_ids"))
        .order_by(shown.c.item_id, shown.c.turn_no),
        {"item_ids": as_list(item_ids)},
    ).all()
    return _turns(connection, experiment_id, rows)


def every_turn(
    connection: Connection, experiment_id: ExperimentId, run_id: RunId | None
) -> Iterator[list[WholeTurn]]:
    """Every turn in order, those of some items at a time."""
    shown = shown_turns(experiment_id, run_id)
    after = ""
    while True:
        ids = (
            sa.select(shown.c.item_id)
            .where(shown.c.item_id > after)
            .distinct()
            .order_by(shown.c.item_id)
            .limit(ITEMS_AT_ONCE)
        )
        item_ids = [ItemId(one) for one in connection.execute(ids).scalars()]
        if not item_ids:
            return
        yield whole_turns(connection, experiment_id, item_ids, run_id)
        after = item_ids[-1]


def _with_values(shown: sa.Subquery) -> sa.Select[Any]:
    """Shown turns with what went in and what came out."""
    measures = [target_record.c[name] for name in ("output_json", *MEASURES)]
    return (
        sa.select(shown, dataset_item.c.turns_json, dataset_item.c.content_id, *measures)
        .join(dataset_item, dataset_item.c.id == shown.c.item_id)
        .outerjoin(target_record, target_record.c.id == shown.c.target_record_id)
    )


def _turns(
    connection: Connection, experiment_id: ExperimentId, rows: Sequence[sa.Row[Any]]
) -> list[WholeTurn]:
    scores, statistics = _scores(connection, rows)
    people = _annotations(connection, experiment_id, {row.item_id for row in rows})
    turns: list[WholeTurn] = []
    for row in rows:
        cell = (row.run_id, row.item_id, row.turn_no, row.try_no)
        shown = ResultRow(
            item_id=ContentId(row.content_id or row.item_id),
            turn=row.turn_no,
            run_id=RunId(row.run_id),
            status=ItemStatus(row.status),
            input=turns_of(row.turns_json)[row.turn_no],
            output={} if row.output_json is None else msgspec.json.decode(row.output_json),
            scores=scores.get(cell, {}),
            latency_ms=row.latency_ms,
            tokens=row.tokens,
            cost=row.cost,
            error_code=row.error_code,
            error_message=row.error_message,
        )
        noted = people.get((row.item_id, row.turn_no), {})
        turns.append(
            WholeTurn(
                ItemId(row.item_id),
                shown,
                statistics.get(cell, {}),
                noted,
                answered=row.output_json is not None,
            )
        )
    return turns


def _scores(
    connection: Connection, rows: Sequence[sa.Row[Any]]
) -> tuple[dict[Cell, dict[str, ScoreCell]], dict[Cell, dict[str, tuple[float, ...]]]]:
    """The scores of each turn by name, and the statistics of those that have them."""
    links, records = turn_score.c, evaluator_record.c
    wanted: dict[str, set[str]] = {}
    for row in rows:
        wanted.setdefault(row.run_id, set()).add(row.item_id)
    found: dict[Cell, dict[str, ScoreCell]] = {}
    statistics: dict[Cell, dict[str, tuple[float, ...]]] = {}
    select = (
        sa.select(
            *(links.run_id, links.item_id, links.turn_no, links.try_no),
            *(records.name, records.score, records.label, records.reason),
            *(records.error_code, records.error_message, records.statistics_json),
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
            if row.statistics_json is not None:
                kept = _statistics.decode(row.statistics_json)
                statistics.setdefault(cell, {})[row.name] = kept
    return found, statistics


def _annotations(
    connection: Connection, experiment_id: ExperimentId, item_ids: set[str]
) -> dict[tuple[str, int], dict[str, Annotated]]:
    """The latest annotation of each name, by item and turn."""
    of = annotation.c
    rows = connection.execute(
        sa.select(of.item_id, of.turn_no, of.name, of.score, of.label)
        .where(of.experiment_id == experiment_id, among(of.item_id, "item_ids"))
        .order_by(of.created_at_ms, of.id),
        {"item_ids": as_list(item_ids)},
    )
    found: dict[tuple[str, int], dict[str, Annotated]] = {}
    for row in rows:
        found.setdefault((row.item_id, row.turn_no), {})[row.name] = Annotated(row.score, row.label)
    return found
