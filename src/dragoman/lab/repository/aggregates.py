"""What the scores of many turns amount to, computed by the database."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import EVERYTHING, Filter
from dragoman.lab.model import ExperimentId, RunId
from dragoman.lab.repository.fields import MEASURES, matches, scores_of, shown_turns
from dragoman.lab.repository.tables import evaluator_record, target_record
from dragoman.store import Connection

BINS = 10
PASS, FAIL = "pass", "fail"
"""Labels with which an evaluator says itself whether a turn passes."""
PASSING_SCORE = 1.0
"""Without such a label, a turn passes with full marks."""

_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class Bin(msgspec.Struct, frozen=True):
    """How many values lie from `low` up to `high`; the last bin holds `high` itself too."""

    low: float
    high: float
    count: int


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What many values amount to; values that are missing count nowhere but in `errors`."""

    count: int
    errors: int
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


class Aggregates(msgspec.Struct, frozen=True):
    """Every score by its name, and what the target took."""

    scores: dict[str, Aggregate]
    latency_ms: Aggregate
    tokens: Aggregate
    cost: Aggregate


def aggregates_of(
    connection: Connection,
    experiment_id: ExperimentId,
    *,
    run_id: RunId | None = None,
    wanted: Filter = EVERYTHING,
) -> Aggregates:
    """The aggregates of an experiment as it stands, or of what one of its runs left."""
    shown = shown_turns(experiment_id, run_id)
    condition = matches(shown, wanted)
    record = evaluator_record.c
    scores = (
        sa.select(record.name, record.score.label("value"), record.label, record.error_code)
        .select_from(scores_of(shown))
        .where(condition)
    )
    return Aggregates(
        scores=_by_name(connection, scores.subquery("scored"), judged=True),
        **{name: _measure(connection, shown, condition, name) for name in MEASURES},
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
    return _by_name(connection, values.subquery("measured"), judged=False).get(name, NOTHING)


NOTHING = Aggregate(0, 0, None, None, None, None, 0.0, None, None, None, None, ())
NO_SCORES = msgspec.structs.replace(NOTHING, pass_rate=None)
"""Of an evaluator that has judged nothing yet."""


def _by_name(connection: Connection, values: sa.Subquery, *, judged: bool) -> dict[str, Aggregate]:
    """The aggregate of each name; `values` has name, value, label and error_code."""
    passing = sa.case(
        (values.c.value.is_(None), 0),
        (values.c.label == PASS, 1),
        (values.c.label == FAIL, 0),
        (values.c.value >= PASSING_SCORE, 1),
        else_=0,
    )
    totals = connection.execute(
        sa.select(
            values.c.name,
            sa.func.count(values.c.value).label("found"),
            sa.func.count(values.c.error_code).label("errors"),
            sa.func.avg(values.c.value).label("mean"),
            sa.func.min(values.c.value).label("least"),
            sa.func.max(values.c.value).label("most"),
            sa.func.sum(values.c.value).label("total"),
            sa.func.sum(passing).label("passing"),
        )
        .group_by(values.c.name)
        .order_by(values.c.name)
    ).all()
    percentiles = _percentiles(connection, values, {row.name: row.found for row in totals})
    return {
        row.name: _aggregate(connection, values, row, percentiles.get(row.name, {}), judged)
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
        errors=row.errors,
        mean=row.mean,
        stddev=math.sqrt(squares / (row.found - 1)) if row.found > 1 else None,
        min=row.least,
        max=row.most,
        total=row.total or 0.0,
        histogram=bins,
        pass_rate=_share(row.passing, row.found) if judged else msgspec.UNSET,
        **{name: percentiles.get(name) for name in _PERCENTILES},
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
