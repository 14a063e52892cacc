"""What two runs are compared by: the turns of each, what they took, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.ids import TenantId
from dragoman.lab.filters import Filter
from dragoman.lab.model import ExperimentId, JsonValue, RunId, Turn
from dragoman.lab.repository.by_hand import Search, turn_passes
from dragoman.lab.repository.fields import (
    Numbers,
    can_be_asked_in_sql,
    matches,
    scores_of,
    shown_turns,
)
from dragoman.lab.repository.items import turns_of
from dragoman.lab.repository.records import statistics_of
from dragoman.lab.repository.result_rows import every_turn
from dragoman.lab.repository.statements import among, as_list
from dragoman.lab.repository.tables import (
    dataset_item,
    evaluator_record,
    experiment,
    target_record,
)
from dragoman.lab.states import RunStatus
from dragoman.store import StoreConnection

Unit = tuple[str, int]
"""What pairs across runs: the id of an item's content, and the number of the turn."""


Place = tuple[str, int, int]
"""One repetition of a turn in one run: the item's row, the turn, the repetition."""


ITEMS_AT_ONCE = 1_000

_PLACE = ("item_id", "turn_no", "repetition")


class TurnTaken(msgspec.Struct, frozen=True):
    """One repetition of a turn, without its scores."""

    place: Place
    unit: Unit
    status: str
    error_code: str | None
    answered: bool
    latency_ms: float | None
    tokens: int | None
    cost: float | None
    cluster: JsonValue = None

    @property
    def item_id(self) -> str:
        return self.place[0]


class ScoreTaken(msgspec.Struct, frozen=True):
    """What one evaluator said of one repetition of a turn."""

    place: Place
    name: str
    score: float | None
    error_code: str | None
    statistics: tuple[float, ...] | None
    run_id: str
    """The run in which it was scored; later runs of the experiment may have reused it."""


class PageTaken(msgspec.Struct, frozen=True):
    """Some items of a run: every repetition of their turns, and every score of these."""

    turns: Sequence[TurnTaken]
    scores: Sequence[ScoreTaken]
    """With the statistics of the scores that were asked for with them."""
    after: str | None
    """Where the next page begins; None when this is the last."""


class TurnTexts(msgspec.Struct, frozen=True):
    """What went into a turn, and what came out in its first repetition that has an output."""

    input: Turn
    output: Turn
    main: str | None


def page_taken(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    numbers: Numbers,
    *,
    after: str,
    with_statistics: Sequence[str] = (),
    cluster: str | None = None,
) -> PageTaken:
    """The turns of some items with their scores, as the experiment stands or as a run left it.

    `cluster` is a column of the input, whose value comes with each turn.
    """
    shown = shown_turns(experiment_id, run_id)
    items = (
        sa.select(shown.c.item_id)
        .where(shown.c.item_id > after)
        .distinct()
        .order_by(shown.c.item_id)
        .limit(ITEMS_AT_ONCE)
    )
    ids = connection.execute(items).scalars().all()
    if not ids:
        return PageTaken((), (), None)
    on_page = sa.and_(shown.c.item_id > after, shown.c.item_id <= ids[-1])
    return PageTaken(
        _turns(connection, shown, on_page, cluster),
        _scores(connection, shown, on_page, numbers, with_statistics),
        ids[-1] if len(ids) == ITEMS_AT_ONCE else None,
    )


def _turns(
    connection: StoreConnection,
    shown: sa.Subquery,
    on_page: sa.ColumnElement[bool],
    cluster: str | None,
) -> list[TurnTaken]:
    taken = target_record.c
    rows = connection.execute(
        sa.select(
            *(shown.c[name] for name in _PLACE),
            *(shown.c.status, shown.c.error_code),
            dataset_item.c.content_id,
            *(taken.id.label("record"), taken.latency_ms, taken.tokens, taken.cost),
            *(() if cluster is None else (dataset_item.c.turns_json,)),
        )
        .select_from(_with_outputs(shown))
        .where(on_page)
        .order_by(shown.c.item_id, shown.c.turn_no, shown.c.repetition)
    )
    return [
        TurnTaken(
            place=(row.item_id, row.turn_no, row.repetition),
            unit=(row.content_id or row.item_id, row.turn_no),
            status=row.status,
            error_code=row.error_code,
            answered=row.record is not None,
            latency_ms=row.latency_ms,
            tokens=row.tokens,
            cost=row.cost,
            cluster=None if cluster is None else turns_of(row.turns_json)[row.turn_no].get(cluster),
        )
        for row in rows
    ]


def _scores(
    connection: StoreConnection,
    shown: sa.Subquery,
    on_page: sa.ColumnElement[bool],
    numbers: Numbers,
    with_statistics: Sequence[str],
) -> list[ScoreTaken]:
    record = evaluator_record.c
    wanted = sa.case((record.name.in_(list(with_statistics)), record.statistics_json))
    rows = connection.execute(
        sa.select(
            *(shown.c[name] for name in _PLACE),
            *(record.name, record.score, record.error_code),
            *(wanted.label("statistics"), record.run_id),
        )
        .select_from(scores_of(shown, numbers))
        .where(on_page)
    )
    return [
        ScoreTaken(
            place=(row.item_id, row.turn_no, row.repetition),
            name=row.name,
            score=row.score,
            error_code=row.error_code,
            statistics=statistics_of(row.statistics),
            run_id=row.run_id,
        )
        for row in rows
    ]


def units_that_pass(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    wanted: Filter,
    numbers: Numbers,
    search: Search,
) -> set[Unit]:
    """The turns of which at least one repetition passes the filter.

    `search` tells whether a pattern is found in a text.
    """
    if not can_be_asked_in_sql(wanted):
        return {
            (turn.row.item_id, turn.row.turn)
            for turns in every_turn(connection, experiment_id, run_id, numbers)
            for turn in turns
            if turn_passes(turn, wanted, search)
        }
    shown = shown_turns(experiment_id, run_id)
    rows = connection.execute(
        sa.select(shown.c.item_id, shown.c.turn_no, dataset_item.c.content_id)
        .select_from(shown.join(dataset_item, dataset_item.c.id == shown.c.item_id))
        .where(matches(shown, wanted, numbers))
        .distinct()
    )
    return {(row.content_id or row.item_id, row.turn_no) for row in rows}


def said_in(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    run_id: RunId | None,
    item_ids: Sequence[str],
) -> dict[tuple[str, int], TurnTexts]:
    """Inputs and outputs of some items, by the item's row and the turn."""
    shown = shown_turns(experiment_id, run_id)
    rows = connection.execute(
        sa.select(
            *(shown.c.item_id, shown.c.turn_no),
            *(dataset_item.c.turns_json, target_record.c.output_json, target_record.c.main),
        )
        .select_from(_with_outputs(shown))
        .where(among(shown.c.item_id, "item_ids"))
        .order_by(shown.c.item_id, shown.c.turn_no, shown.c.repetition),
        {"item_ids": as_list(item_ids)},
    )
    found: dict[tuple[str, int], TurnTexts] = {}
    for row in rows:
        place = (row.item_id, row.turn_no)
        if place in found and (found[place].main is not None or row.output_json is None):
            continue
        output = {} if row.output_json is None else msgspec.json.decode(row.output_json)
        found[place] = TurnTexts(turns_of(row.turns_json)[row.turn_no], output, row.main)
    return found


def finished_namesakes(
    connection: StoreConnection, tenant: TenantId, name: str, before: tuple[int, str]
) -> list[tuple[ExperimentId, str]]:
    """Experiments that succeeded and are called `name`, or `name #N`, the latest first.

    Only those made before (time, id).
    """
    made = sa.tuple_(experiment.c.created_at_ms, experiment.c.id)
    rows = connection.execute(
        sa.select(experiment.c.id, experiment.c.name)
        .where(
            experiment.c.tenant == tenant,
            experiment.c.status == RunStatus.SUCCESS.value,
            sa.or_(
                experiment.c.name == name,
                experiment.c.name.startswith(f"{name} #", autoescape=True),
            ),
            made < sa.tuple_(sa.literal(before[0]), sa.literal(before[1])),
        )
        .order_by(experiment.c.created_at_ms.desc(), experiment.c.id.desc())
    )
    return [(ExperimentId(row.id), row.name) for row in rows]


def _with_outputs(shown: sa.Subquery) -> Any:
    return shown.join(dataset_item, dataset_item.c.id == shown.c.item_id).outerjoin(
        target_record, target_record.c.id == shown.c.target_record_id
    )
