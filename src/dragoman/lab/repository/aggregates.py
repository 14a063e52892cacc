"""Aggregates of the scores of many turns, computed by the database."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import EVERYTHING, Filter
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.fields import (
    MEASURES,
    Numbers,
    matches,
    scores_of,
    shown_turns,
)
from dragoman.lab.repository.repeating import Repeated, repeated
from dragoman.lab.repository.tables import evaluator_record, target_record
from dragoman.lab.states import ITEM_ENDED, ItemStatus
from dragoman.store import Connection

BINS = 10
PASS, FAIL = "pass", "fail"
"""Labels by which an evaluator decides whether a turn passes."""

NO_CODE = "INTERNAL_ERROR"
"""Stands for the code of a failure that has none."""

_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class Bin(msgspec.Struct, frozen=True):
    """How many values lie from `low` up to `high`; the last bin holds `high` itself too."""

    low: float
    high: float
    count: int


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """The aggregate of many values; missing values count only in `errors`."""

    count: int
    errors: int
    """Turns that have ended without this score, for any reason."""
    mean: float | None
    stddev: float | None
    min: float | None
    max: float | None
    total: float
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    histogram: tuple[Bin, ...]
    pass_rate: float | msgspec.UnsetType | None = msgspec.UNSET
    """Of the turns that are labelled pass or fail; None where none is."""
    repetitions: Repeated | msgspec.UnsetType = msgspec.UNSET
    """Of a score, where items were tried several times."""


class Cause(msgspec.Struct, frozen=True):
    """Why items failed: an error code, how many items have it, and what one of them says."""

    code: str
    count: int
    sample: str | None = None


class Failures(msgspec.Struct, frozen=True):
    """The items that ended without all of their scores."""

    items: int = 0
    share: float = 0.0
    """Of the items that have ended; 0 when none has."""
    causes: tuple[Cause, ...] = ()
    """The most frequent first."""


class Aggregates(msgspec.Struct, frozen=True):
    """Every score by its name, what the target took, and what failed."""

    scores: dict[str, Aggregate]
    latency_ms: Aggregate
    tokens: Aggregate
    cost: Aggregate
    failures: Failures = Failures()


def aggregates_of(
    connection: Connection,
    experiment_id: ExperimentId,
    names: Sequence[str],
    *,
    run_id: RunId | None = None,
    wanted: Filter = EVERYTHING,
    numbers: Numbers = None,
    repetitions: int = 1,
) -> Aggregates:
    """The aggregates of an experiment as it stands, or of what one of its runs left.

    `names` are those of its scores: one that no turn has is counted as missing everywhere.
    """
    shown = shown_turns(experiment_id, run_id)
    condition = matches(shown, wanted, numbers)
    ended = sa.and_(condition, shown.c.status.in_(sorted(ITEM_ENDED)))
    record = evaluator_record.c
    scores = (
        sa.select(record.name, record.score.label("value"), record.label, record.error_code)
        .select_from(scores_of(shown, numbers))
        .where(ended)
    )
    found = _by_name(connection, scores.subquery("scored"), judged=True)
    if repetitions > 1:
        tries = (
            sa.select(record.name, shown.c.item_id, shown.c.turn_no, record.score, record.label)
            .select_from(scores_of(shown, numbers))
            .where(ended, record.score.is_not(None))
            .order_by(record.name, shown.c.item_id, shown.c.turn_no)
        )
        found = _with_repeated(connection, tries, found, repetitions)
    number = connection.execute(
        sa.select(
            sa.func.count().label("turns"),
            sa.func.count(_key(shown).distinct()).label("items"),
        ).where(ended)
    ).one()
    return Aggregates(
        scores={
            name: _with_errors(found.get(name, (NO_SCORES, 0)), number.turns) for name in names
        },
        **{name: _measure(connection, shown, condition, name) for name in MEASURES},
        failures=_failures(connection, shown, ended, number.items),
    )


def _key(rows: sa.Subquery) -> sa.ColumnElement[str]:
    """An item's repetition as one value, which can be counted."""
    return rows.c.item_id + sa.literal("#") + sa.cast(rows.c.repetition, sa.String(10))


def _with_repeated(
    connection: Connection,
    tries: sa.Select[Any],
    found: dict[str, tuple[Aggregate, int]],
    repetitions: int,
) -> dict[str, tuple[Aggregate, int]]:
    """The aggregates of scores, with what the repetitions of each turn tell."""
    rows = connection.execute(tries)
    told = {
        name: repeated(
            ((row.item_id, row.turn_no, row.score, _verdict(row.label)) for row in group),
            repetitions,
        )
        for name, group in groupby(rows, key=lambda row: row.name)
    }
    return {
        name: (
            msgspec.structs.replace(aggregate, repetitions=told.get(name, msgspec.UNSET)),
            judged,
        )
        for name, (aggregate, judged) in found.items()
    }


def _verdict(label: str | None) -> bool | None:
    """Whether a turn passes; None where its evaluator does not decide that."""
    return label == PASS if label in (PASS, FAIL) else None


def _with_errors(found: tuple[Aggregate, int], turns: int) -> Aggregate:
    """The aggregate of a score that this many turns have."""
    aggregate, judged = found
    return msgspec.structs.replace(aggregate, errors=turns - judged)


def _failures(
    connection: Connection, shown: sa.Subquery, ended: sa.ColumnElement[bool], items: int
) -> Failures:
    """The items that did not succeed, counted by error code."""
    code = sa.func.coalesce(shown.c.error_code, NO_CODE)
    failed = (
        sa.select(
            _key(shown).label("key"),
            code.label("code"),
            shown.c.error_message,
            # The first turn of an item that failed says why; the ones after it only follow.
            sa.func.row_number()
            .over(
                partition_by=code,
                order_by=(shown.c.item_id, shown.c.repetition, shown.c.turn_no),
            )
            .label("place"),
        )
        .where(ended, shown.c.status != ItemStatus.SUCCESS.value)
        .subquery("failed")
    )
    number = sa.func.count(failed.c.key.distinct())
    causes = connection.execute(
        sa.select(
            failed.c.code,
            number.label("number"),
            sa.func.max(sa.case((failed.c.place == 1, failed.c.error_message))).label("sample"),
        )
        .group_by(failed.c.code)
        .order_by(number.desc(), failed.c.code)
    ).all()
    failing = connection.execute(sa.select(number)).scalar_one()
    return Failures(
        items=failing,
        share=failing / items if items else 0.0,
        causes=tuple(Cause(row.code, row.number, row.sample) for row in causes),
    )


def _measure(
    connection: Connection, shown: sa.Subquery, condition: sa.ColumnElement[bool], name: str
) -> Aggregate:
    """The aggregate of something that targets report."""
    values = (
        sa.select(
            sa.literal(name, sa.String).label("name"),
            sa.cast(target_record.c[name], sa.Float).label("value"),
            sa.cast(sa.null(), sa.String).label("label"),
            sa.cast(sa.null(), sa.String).label("error_code"),
        )
        .select_from(shown.join(target_record, target_record.c.id == shown.c.target_record_id))
        .where(condition)
    )
    found = _by_name(connection, values.subquery("measured"), judged=False)
    return found[name][0] if name in found else NOTHING


NOTHING = Aggregate(0, 0, None, None, None, None, 0.0, None, None, None, None, ())
NO_SCORES = msgspec.structs.replace(NOTHING, pass_rate=None)
"""The aggregate of an evaluator that has judged nothing yet."""


def _by_name(
    connection: Connection, values: sa.Subquery, *, judged: bool
) -> dict[str, tuple[Aggregate, int]]:
    """The aggregate of each name, and how many rows have it without an error.

    `values` has name, value, label and error_code.
    """
    scored = values.c.value.is_not(None)
    passing = sa.case((sa.and_(scored, values.c.label == PASS), 1), else_=0)
    verdict = sa.case((sa.and_(scored, values.c.label.in_((PASS, FAIL))), 1), else_=0)
    totals = connection.execute(
        sa.select(
            values.c.name,
            sa.func.count(values.c.value).label("found"),
            (sa.func.count() - sa.func.count(values.c.error_code)).label("good"),
            sa.func.avg(values.c.value).label("mean"),
            sa.func.min(values.c.value).label("least"),
            sa.func.max(values.c.value).label("most"),
            sa.func.sum(values.c.value).label("total"),
            sa.func.sum(passing).label("passing"),
            sa.func.sum(verdict).label("verdicts"),
        )
        .group_by(values.c.name)
        .order_by(values.c.name)
    ).all()
    percentiles = _percentiles(connection, values, {row.name: row.found for row in totals})
    return {
        row.name: (
            _aggregate(connection, values, row, percentiles.get(row.name, {}), judged),
            row.good,
        )
        for row in totals
    }


def _aggregate(
    connection: Connection,
    values: sa.Subquery,
    row: sa.Row[Any],
    percentiles: Mapping[str, float],
    judged: bool,
) -> Aggregate:
    squares, bins = _spread(connection, values, row)
    return Aggregate(
        count=row.found,
        errors=0,
        mean=row.mean,
        stddev=math.sqrt(squares / (row.found - 1)) if row.found > 1 else None,
        min=row.least,
        max=row.most,
        total=row.total or 0.0,
        histogram=bins,
        pass_rate=_share(row.passing, row.verdicts) if judged else msgspec.UNSET,
        p50=percentiles.get("p50"),
        p90=percentiles.get("p90"),
        p95=percentiles.get("p95"),
        p99=percentiles.get("p99"),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percentiles(
    connection: Connection, values: sa.Subquery, counts: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """By nearest rank: each is a value that occurred."""
    ranks = {
        name: {word: math.ceil(share * count) for word, share in _PERCENTILES.items()}
        for name, count in counts.items()
        if count
    }
    if not ranks:
        return {}
    place = sa.func.row_number().over(partition_by=values.c.name, order_by=values.c.value)
    ranked = (
        sa.select(values.c.name, values.c.value, place.label("place"))
        .where(values.c.value.is_not(None))
        .subquery("ranked")
    )
    wanted = sa.or_(
        *(
            sa.and_(ranked.c.name == name, ranked.c.place.in_(sorted(set(places.values()))))
            for name, places in ranks.items()
        )
    )
    found = {
        (row.name, row.place): row.value
        for row in connection.execute(sa.select(ranked).where(wanted))
    }
    return {
        name: {word: found[name, place] for word, place in places.items()}
        for name, places in ranks.items()
    }


def _spread(
    connection: Connection, values: sa.Subquery, row: sa.Row[Any]
) -> tuple[float, tuple[Bin, ...]]:
    """The squared distances from the mean, added up, and the histogram."""
    if not row.found:
        return 0.0, ()
    edges = _edges(row.least, row.most)
    distance = values.c.value - sa.literal(row.mean, sa.Float)
    below = [
        sa.func.sum(sa.case((values.c.value < sa.literal(edge, sa.Float), 1), else_=0))
        for edge in edges[1:-1]
    ]
    squares, *cumulative = tuple(
        connection.execute(
            sa.select(sa.func.sum(distance * distance), *below).where(
                values.c.name == row.name, values.c.value.is_not(None)
            )
        ).one()
    )
    reached: list[int] = [0, *cumulative, row.found]
    bins = tuple(
        Bin(low, high, reached[number + 1] - reached[number])
        for number, (low, high) in enumerate(pairwise(edges))
    )
    return squares, bins


def _edges(least: float, most: float) -> Sequence[float]:
    if least == most:
        return [least, most]
    return [*(least + (most - least) * number / BINS for number in range(BINS)), most]
