"""Results as users read them: rows of turns, filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import MEASURES, Filter
from dragoman.lab.model import (
    Annotation,
    ContentId,
    ExperimentId,
    ItemId,
    ItemKey,
    ResultRow,
    RunId,
    ScoreCell,
)
from dragoman.lab.repository import annotating
from dragoman.lab.repository.fields import Numbers, is_meant, matches, shown_turns
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.ordering import Ordered, Place, Sorting
from dragoman.lab.repository.records import statistics_of
from dragoman.lab.repository.statements import among, among_keys, as_keys, as_list
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    target_record,
    turn_score,
)
from dragoman.lab.states import ItemStatus
from dragoman.store import StoreConnection

Cell = tuple[str, str, int, int, int]
"""Which try of which turn a score belongs to: run, item, repetition, turn, try."""

ITEMS_AT_ONCE = 1_000


class Judged(msgspec.Struct, frozen=True):
    """What an evaluator left of a turn."""

    name: str
    cell: ScoreCell
    statistics: tuple[float, ...] | None


class WholeTurn(msgspec.Struct, frozen=True):
    """A turn as users see it, with what only the lab knows of it."""

    key: ItemKey
    row: ResultRow
    judged: Mapping[int, Judged]
    """By the numbers of the evaluators."""
    answered: bool
    """Whether the target gave an output."""


def result_page(
    connection: StoreConnection,
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
    condition = matches(shown, wanted, numbers)
    ordered = Ordered(shown, condition, sorting, connection.dialect, numbers)
    page = ordered.page(after, most + 1)
    rows = connection.execute(_with_values(page).order_by(*ordered.order(page))).all()
    there_are_more = len(rows) > most
    rows = rows[:most]
    shown_rows = _rows(connection, experiment_id, rows, numbers)
    return shown_rows, ordered.place_of(rows[-1]) if there_are_more else None


def count_rows(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    numbers: Numbers = None,
) -> int:
    """How many rows pass."""
    shown = shown_turns(experiment_id, run_id)
    counted = sa.select(sa.func.count()).select_from(shown)
    found = connection.execute(counted.where(matches(shown, wanted, numbers)))
    return int(found.scalar_one())


def rows_of_items(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    keys: Collection[ItemKey],
    numbers: Numbers = None,
    *,
    statistics: bool = False,
) -> list[ResultRow]:
    """Every turn of these repetitions, as they stand; with the `statistics` of scores if asked."""
    rows = _of_keys(connection, experiment_id, None, keys)
    return _rows(connection, experiment_id, rows, numbers, statistics=statistics)


def rows_at(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    places: Sequence[Place],
    run_id: RunId | None = None,
    numbers: Numbers = None,
) -> list[ResultRow]:
    """The rows at these places, in their order; those that are gone are left out."""
    keys = {ItemKey(ItemId(place.item_id), place.repetition) for place in places}
    found = {
        (row.item_id, row.repetition, row.turn_no): row
        for row in _of_keys(connection, experiment_id, run_id, keys)
    }
    wanted = [(place.item_id, place.repetition, place.turn_no) for place in places]
    rows = [found[turn] for turn in wanted if turn in found]
    return _rows(connection, experiment_id, rows, numbers)


def _of_keys(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    keys: Collection[ItemKey],
) -> Sequence[sa.Row[Any]]:
    shown = shown_turns(experiment_id, run_id)
    return connection.execute(
        _with_values(shown)
        .where(among_keys(shown.c.item_id, shown.c.repetition, "keys"))
        .order_by(shown.c.item_id, shown.c.repetition, shown.c.turn_no),
        {"keys": as_keys(keys)},
    ).all()


def whole_turns(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    item_ids: Sequence[ItemId],
    run_id: RunId | None = None,
    numbers: Numbers = None,
) -> list[WholeTurn]:
    """Every turn of every repetition of these items, in order."""
    shown = shown_turns(experiment_id, run_id)
    rows = connection.execute(
        _with_values(shown)
        .where(among(shown.c.item_id, "item_ids"))
        .order_by(shown.c.item_id, shown.c.repetition, shown.c.turn_no),
        {"item_ids": as_list(item_ids)},
    ).all()
    judged = _judged(connection, rows, numbers, statistics=True)
    people = annotating.of_items(connection, experiment_id, {row.item_id for row in rows})
    return [
        WholeTurn(
            ItemKey(ItemId(row.item_id), row.repetition),
            _row(
                row,
                {one.name: one.cell for one in judged.get(_cell(row), {}).values()},
                people.get(_output(row), ()),
            ),
            judged.get(_cell(row), {}),
            answered=row.output_json is not None,
        )
        for row in rows
    ]


def every_turn(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    numbers: Numbers = None,
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
        yield whole_turns(connection, experiment_id, item_ids, run_id, numbers)
        after = item_ids[-1]


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
    connection: StoreConnection,
    experiment_id: ExperimentId,
    rows: Sequence[sa.Row[Any]],
    numbers: Numbers,
    *,
    statistics: bool = False,
) -> list[ResultRow]:
    people = annotating.of_items(connection, experiment_id, {row.item_id for row in rows})
    judged = _judged(connection, rows, numbers, statistics=statistics)

    def cells(row: sa.Row[Any]) -> dict[str, ScoreCell]:
        found = judged.get(_cell(row), {}).values()
        if not statistics:
            return {one.name: one.cell for one in found}
        return {
            one.name: msgspec.structs.replace(one.cell, statistics=one.statistics) for one in found
        }

    return [_row(row, cells(row), people.get(_output(row), ())) for row in rows]


def _row(
    row: sa.Row[Any], scores: dict[str, ScoreCell], people: tuple[Annotation, ...]
) -> ResultRow:
    return ResultRow(
        item_id=ContentId(row.content_id or row.item_id),
        turn=row.turn_no,
        run_id=RunId(row.run_id),
        status=ItemStatus(row.status),
        input=turns_of(row.turns_json)[row.turn_no],
        output={} if row.output_json is None else msgspec.json.decode(row.output_json),
        scores=scores,
        latency_ms=row.latency_ms,
        tokens=row.tokens,
        cost=row.cost,
        error_code=row.error_code,
        error_message=row.error_message,
        repetition=row.repetition + 1,
        cached=bool(row.cached),
        first_token_ms=row.first_token_ms,
        annotations=people,
    )


def _judged(
    connection: StoreConnection, rows: Sequence[sa.Row[Any]], numbers: Numbers, *, statistics: bool
) -> dict[Cell, dict[int, Judged]]:
    """What evaluators left of each turn, by their numbers; statistics only if asked."""
    links, records = turn_score.c, evaluator_record.c
    wanted: dict[str, set[ItemKey]] = {}
    for row in rows:
        wanted.setdefault(row.run_id, set()).add(ItemKey(row.item_id, row.repetition))
    found: dict[Cell, dict[int, Judged]] = {}
    select = (
        sa.select(
            *(links.run_id, links.item_id, links.repetition, links.turn_no, links.try_no),
            *(links.evaluator_no, records.name, records.score, records.label, records.reason),
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
            found.setdefault(_cell(row), {})[row.evaluator_no] = Judged(
                row.name,
                ScoreCell(row.score, row.label, row.reason, row.error_code, row.error_message),
                statistics_of(row.statistics_json) if statistics else None,
            )
    return found


def _output(row: sa.Row[Any]) -> annotating.Output:
    return row.item_id, row.repetition, row.turn_no, row.target_record_id or ""


def _cell(row: sa.Row[Any]) -> Cell:
    return row.run_id, row.item_id, row.repetition, row.turn_no, row.try_no
