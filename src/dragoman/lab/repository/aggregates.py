"""Aggregates of the scores of many turns, computed by the database."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.filters import EVERYTHING, Filter
from dragoman.lab.model import AnnotatedName, Calibration, EvaluatorSpec, ExperimentId, RunId
from dragoman.lab.repository.certainty import (
    MEASURED,
    Range,
    Statistics,
    Together,
    corpus_of,
    interval_of_corpus,
    interval_of_mean,
    interval_of_rate,
    percentile_bounds,
    range_of,
)
from dragoman.lab.repository.corpus_sums import CorpusSums
from dragoman.lab.repository.fields import Numbers, matches, scores_of, shown_turns
from dragoman.lab.repository.records import statistics_of
from dragoman.lab.repository.repeating import Repeated, repeated
from dragoman.lab.repository.tables import evaluator_record, target_record
from dragoman.lab.states import ITEM_ENDED, ItemStatus
from dragoman.lab.turn_outcomes import TurnOutcomeKind, outcome_of_score
from dragoman.store import StoreConnection

BINS = 10
PASS, FAIL = "pass", "fail"
"""Labels by which an evaluator decides whether a turn passes."""

NO_CODE = "INTERNAL_ERROR"
"""Stands for the code of a failure that has none."""

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}

FEW_VALUES = 1_000
"""Up to here an interval is made from the values themselves, above it from their sums."""


class Bin(msgspec.Struct, frozen=True):
    """How many values lie from `low` up to `high`; the last bin holds `high` itself too."""

    low: float
    high: float
    count: int


class Outcomes(msgspec.Struct, frozen=True):
    """What became of the turns that have ended: the denominators of everything else."""

    scored: int = 0
    target_failed: int = 0
    unscored: int = 0
    infrastructure: int = 0


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
    ci95: tuple[float, float] | None = None
    """Bounds of the mean; none where there are too few values, or without the extra `lab`."""
    pass_rate: float | msgspec.UnsetType | None = msgspec.UNSET
    """Of the turns that are labelled pass or fail; None where none is."""
    pass_rate_ci95: tuple[float, float] | None = None
    p50_ci95: tuple[float, float] | None = None
    """Bounds of a percentile; none where there are too few values to bound it."""
    p90_ci95: tuple[float, float] | None = None
    p95_ci95: tuple[float, float] | None = None
    p99_ci95: tuple[float, float] | None = None
    corpus: float | msgspec.UnsetType | None = msgspec.UNSET
    """The score of all texts together, of evaluators that have one."""
    corpus_ci95: tuple[float, float] | None = None
    outcomes: Outcomes | msgspec.UnsetType = msgspec.UNSET
    repetitions: Repeated | msgspec.UnsetType = msgspec.UNSET
    """Of a score, where items were tried several times."""
    calibration: Calibration | msgspec.UnsetType | None = msgspec.UNSET
    """Of a judge: how far it agreed with people; None while that was not measured."""


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


class Aggregates(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every score by its name, what the target took, and what failed."""

    scores: dict[str, Aggregate]
    latency_ms: Aggregate
    tokens: Aggregate
    cost: Aggregate
    failures: Failures = Failures()
    annotations: dict[str, AnnotatedName] | msgspec.UnsetType = msgspec.UNSET
    """What people said of the rows, by name, and how far evaluators agree with them."""


class Group(msgspec.Struct, frozen=True):
    """The aggregates of the rows that have one value in a column; None: those that have none."""

    value: float | str | None
    rows: int
    aggregates: Aggregates


class GroupedAggregates(Aggregates, frozen=True, omit_defaults=True):
    """The same, and by the values of a column where one was asked for."""

    groups: tuple[Group, ...] | msgspec.UnsetType = msgspec.UNSET
    more_groups: int = 0
    """How many values have no group here, because there are too many."""


def grouped(
    whole: Aggregates, groups: Iterable[Group] | None = None, more: int = 0
) -> GroupedAggregates:
    """Aggregates with those of groups of the rows, where there are groups."""
    return GroupedAggregates(
        whole.scores,
        whole.latency_ms,
        whole.tokens,
        whole.cost,
        whole.failures,
        whole.annotations,
        msgspec.UNSET if groups is None else tuple(groups),
        more,
    )


class Spread(msgspec.Struct, frozen=True):
    """What a database found of one series of values; everything else follows from it."""

    count: int = 0
    mean: float | None = None
    least: float | None = None
    most: float | None = None
    total: float = 0.0
    squares: float = 0.0
    """The squared distances from the mean, added up."""
    ones: int = 0
    """How many values are 1."""
    zeros: int = 0
    verdicts: int = 0
    """How many values come with a label that says whether the turn passes."""
    passing: int = 0
    percentiles: Mapping[str, float] = {}
    percentile_bounds: Mapping[str, tuple[float, float]] = {}
    """Of those that enough values bound."""
    below: tuple[int, ...] = ()
    """How many values lie below each inner edge of the histogram."""
    values: Sequence[float] | None = None
    """The values themselves, where there are few."""
    together: Together | None = None
    """None where every value is an observation of its own."""
    verdicts_together: Together | None = None


class Ranks(msgspec.Struct, frozen=True):
    """Which of the values of a series, in order and counted from 1, are looked for."""

    percentiles: dict[str, int]
    """Each is a value that occurred."""
    bounds: dict[str, tuple[int, int]]
    """Around each percentile that enough values bound."""

    @classmethod
    def of(cls, count: int, together: Together | None) -> Ranks:
        return cls(
            {name: math.ceil(share * count) for name, share in PERCENTILES.items()},
            percentile_bounds(count, PERCENTILES, together),
        )

    def all(self) -> list[int]:
        """Every rank that is looked for, once, in order."""
        bounds = (rank for pair in self.bounds.values() for rank in pair)
        return sorted({*self.percentiles.values(), *bounds})

    def found(self, at_rank: Callable[[int], float]) -> dict[str, Any]:
        """What a spread has of percentiles, from the values of ranks."""
        return {
            "percentiles": {name: at_rank(rank) for name, rank in self.percentiles.items()},
            "percentile_bounds": {
                name: (at_rank(low), at_rank(high)) for name, (low, high) in self.bounds.items()
            },
        }


def spread_of(values: Sequence[float], together: Together | None = None) -> Spread:
    """What there is to find of few values, which come in order."""
    if not values:
        return Spread(together=together)
    total = math.fsum(values)
    mean = total / len(values)
    return Spread(
        count=len(values),
        mean=mean,
        least=values[0],
        most=values[-1],
        total=total,
        squares=math.fsum((value - mean) ** 2 for value in values),
        ones=values.count(1.0),
        zeros=values.count(0.0),
        below=tuple(bisect_left(values, edge) for edge in edges_of(values[0], values[-1])[1:-1]),
        values=values,
        together=together,
        **Ranks.of(len(values), together).found(lambda rank: values[rank - 1]),
    )


def aggregate_of(spread: Spread, within: Range = MEASURED) -> Aggregate:
    """The aggregate of a series of values, each `within` these two."""
    count = spread.count
    stddev = math.sqrt(max(0.0, spread.squares) / (count - 1)) if count > 1 else None
    return Aggregate(
        count=count,
        errors=0,
        mean=spread.mean,
        stddev=stddev,
        min=spread.least,
        max=spread.most,
        total=spread.total,
        histogram=_bins(spread),
        ci95=interval_of_mean(
            count,
            spread.mean,
            stddev,
            ones=spread.ones,
            is_rate=spread.ones + spread.zeros == count,
            values=spread.values,
            together=spread.together,
            within=within,
        ),
        p50=spread.percentiles.get("p50"),
        p90=spread.percentiles.get("p90"),
        p95=spread.percentiles.get("p95"),
        p99=spread.percentiles.get("p99"),
        p50_ci95=spread.percentile_bounds.get("p50"),
        p90_ci95=spread.percentile_bounds.get("p90"),
        p95_ci95=spread.percentile_bounds.get("p95"),
        p99_ci95=spread.percentile_bounds.get("p99"),
    )


def score_aggregate(
    spread: Spread,
    evaluator: EvaluatorSpec,
    outcomes: Outcomes,
    statistics: Statistics | None,
    told: Repeated | None,
) -> Aggregate:
    """The aggregate of one evaluator's scores."""
    aggregate = aggregate_of(spread, range_of(evaluator))
    corpus = corpus_ci95 = None
    if statistics is not None:
        corpus = corpus_of(evaluator, statistics.sums)
        if corpus is not None:
            corpus_ci95 = interval_of_corpus(evaluator, corpus, statistics)
    return msgspec.structs.replace(
        aggregate,
        errors=outcomes.target_failed + outcomes.unscored + outcomes.infrastructure,
        pass_rate=spread.passing / spread.verdicts if spread.verdicts else None,
        pass_rate_ci95=interval_of_rate(spread.passing, spread.verdicts, spread.verdicts_together),
        corpus=msgspec.UNSET if corpus is None else corpus,
        corpus_ci95=corpus_ci95,
        outcomes=outcomes,
        repetitions=msgspec.UNSET if told is None else told,
    )


def edges_of(least: float, most: float) -> Sequence[float]:
    """The edges of the histogram's bins."""
    if least == most:
        return [least, most]
    return [*(least + (most - least) * number / BINS for number in range(BINS)), most]


def _bins(spread: Spread) -> tuple[Bin, ...]:
    if spread.least is None or spread.most is None:
        return ()
    edges = edges_of(spread.least, spread.most)
    reached: list[int] = [0, *spread.below, spread.count]
    return tuple(
        Bin(low, high, reached[number + 1] - reached[number])
        for number, (low, high) in enumerate(pairwise(edges))
    )


NO_VALUES = Spread()
NOTHING = aggregate_of(NO_VALUES)
"""The aggregate of no values."""


def aggregates_of(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    evaluators: Sequence[EvaluatorSpec],
    *,
    run_id: RunId | None = None,
    wanted: Filter = EVERYTHING,
    numbers: Numbers = None,
    repetitions: int = 1,
) -> Aggregates:
    """The aggregates of an experiment as it stands, or of what one of its runs left.

    `evaluators` are those of the experiment: a score that no turn has is counted as missing
    everywhere. The filter is one that can be asked in SQL.
    """
    shown = shown_turns(experiment_id, run_id)
    condition = matches(shown, wanted, numbers)
    ended = sa.and_(condition, shown.c.status.in_(sorted(ITEM_ENDED)))
    record = evaluator_record.c
    scored = scores_of(shown, numbers)
    last_turn = connection.execute(sa.select(sa.func.max(shown.c.turn_no)).where(condition))
    several = repetitions > 1 or bool(last_turn.scalar_one())
    scores = (
        sa.select(record.name, record.score.label("value"), record.label, shown.c.item_id)
        .select_from(scored)
        .where(ended)
    )
    found = _by_name(connection, scores.subquery("scored"), several)
    outcomes = _outcomes(connection, shown, scored, ended, [one.name for one in evaluators])
    statistics = _statistics(connection, shown, scored, ended, evaluators)
    told: Mapping[str, Repeated] = {}
    if repetitions > 1:
        told = _repeated(connection, shown, scored, ended, repetitions)
    items = connection.execute(
        sa.select(sa.func.count(_key(shown).distinct())).where(ended)
    ).scalar_one()
    return Aggregates(
        scores={
            one.name: score_aggregate(
                found.get(one.name, NO_VALUES),
                one,
                outcomes[one.name],
                statistics.get(one.name),
                told.get(one.name),
            )
            for one in evaluators
        },
        latency_ms=_measure(connection, shown, condition, "latency_ms", several),
        tokens=_measure(connection, shown, condition, "tokens", several),
        cost=_measure(connection, shown, condition, "cost", several),
        failures=_failures(connection, shown, ended, items),
    )


def _outcomes(
    connection: StoreConnection,
    shown: sa.Subquery,
    scored: sa.FromClause,
    ended: sa.ColumnElement[bool],
    names: Sequence[str],
) -> dict[str, Outcomes]:
    """What became of the ended turns, under each evaluator."""
    record = evaluator_record.c
    answered = shown.c.target_record_id.is_not(None)
    number = sa.func.count().label("number")
    turns = {
        (row.turn_code, bool(row.answered)): int(row.number)
        for row in connection.execute(
            sa.select(shown.c.error_code.label("turn_code"), answered.label("answered"), number)
            .where(ended)
            .group_by(shown.c.error_code, answered)
        )
    }
    counts = {name: Counter[TurnOutcomeKind]() for name in names}
    unjudged = {name: Counter(turns) for name in names}
    judged = connection.execute(
        sa.select(
            record.name,
            record.error_code.label("score_code"),
            shown.c.error_code.label("turn_code"),
            answered.label("answered"),
            number,
        )
        .select_from(scored)
        .where(ended)
        .group_by(record.name, record.error_code, shown.c.error_code, answered)
    )
    for row in judged:
        if row.name in counts:
            outcome = outcome_of_score(
                row.turn_code,
                answered=bool(row.answered),
                judged=True,
                score_error_code=row.score_code,
            )
            counts[row.name][outcome] += row.number
            unjudged[row.name][row.turn_code, bool(row.answered)] -= row.number
    for name, left in unjudged.items():
        for (turn_code, was_answered), turns_left in left.items():
            outcome = outcome_of_score(turn_code, answered=was_answered, judged=False)
            counts[name][outcome] += turns_left
    return {
        name: Outcomes(**{outcome.value: found[outcome] for outcome in TurnOutcomeKind})
        for name, found in counts.items()
    }


def _statistics(
    connection: StoreConnection,
    shown: sa.Subquery,
    scored: sa.FromClause,
    ended: sa.ColumnElement[bool],
    evaluators: Sequence[EvaluatorSpec],
) -> dict[str, Statistics]:
    """The statistics of each score, added up over the turns that have it."""
    record = evaluator_record.c
    rows = connection.execute(
        sa.select(record.name, record.statistics_json, shown.c.item_id)
        .select_from(scored)
        .where(ended, record.statistics_json.is_not(None), record.error_code.is_(None))
        .order_by(shown.c.item_id)
    )
    sums = {one.name: CorpusSums(in_order=True) for one in evaluators}
    found = set()
    for row in rows:
        if row.name in sums:
            found.add(row.name)
            sums[row.name].add(row.item_id, statistics_of(row.statistics_json) or ())
    return {one.name: sums[one.name].told(one) for one in evaluators if one.name in found}


def _repeated(
    connection: StoreConnection,
    shown: sa.Subquery,
    scored: sa.FromClause,
    ended: sa.ColumnElement[bool],
    repetitions: int,
) -> dict[str, Repeated]:
    """What the repetitions of each turn tell, by score."""
    record = evaluator_record.c
    rows = connection.execute(
        sa.select(record.name, shown.c.item_id, shown.c.turn_no, record.score, record.label)
        .select_from(scored)
        .where(ended, record.score.is_not(None))
        .order_by(record.name, shown.c.item_id, shown.c.turn_no)
    )
    return {
        name: repeated(
            ((row.item_id, row.turn_no, row.score, verdict_of(row.label)) for row in group),
            repetitions,
        )
        for name, group in groupby(rows, key=lambda row: row.name)
    }


def verdict_of(label: str | None) -> bool | None:
    """Whether a turn passes; None where its evaluator does not decide that."""
    return label == PASS if label in (PASS, FAIL) else None


def _key(rows: sa.Subquery) -> sa.ColumnElement[str]:
    """An item's repetition as one value, which can be counted."""
    return rows.c.item_id + sa.literal("#") + sa.cast(rows.c.repetition, sa.String(10))


def _failures(
    connection: StoreConnection, shown: sa.Subquery, ended: sa.ColumnElement[bool], items: int
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
    connection: StoreConnection,
    shown: sa.Subquery,
    condition: sa.ColumnElement[bool],
    name: str,
    several: bool,
) -> Aggregate:
    """The aggregate of something that targets report."""
    values = (
        sa.select(
            sa.literal(name, sa.String).label("name"),
            sa.cast(target_record.c[name], sa.Double).label("value"),
            sa.cast(sa.null(), sa.String).label("label"),
            shown.c.item_id,
        )
        .select_from(shown.join(target_record, target_record.c.id == shown.c.target_record_id))
        .where(condition)
    )
    found = _by_name(connection, values.subquery("measured"), several)
    return aggregate_of(found.get(name, NO_VALUES))


def _by_name(connection: StoreConnection, values: sa.Subquery, several: bool) -> dict[str, Spread]:
    """What there is of each name; `values` has name, value, label and item.

    `several`: an item may have several values, which are then no observations of their own.
    """
    scored = values.c.value.is_not(None)
    passing = sa.case((sa.and_(scored, values.c.label == PASS), 1), else_=0)
    verdict = sa.case((sa.and_(scored, values.c.label.in_((PASS, FAIL))), 1), else_=0)
    totals = connection.execute(
        sa.select(
            values.c.name,
            sa.func.count(values.c.value).label("found"),
            sa.func.avg(values.c.value).label("mean"),
            sa.func.min(values.c.value).label("least"),
            sa.func.max(values.c.value).label("most"),
            sa.func.sum(values.c.value).label("total"),
            sa.func.sum(sa.case((values.c.value == 1, 1), else_=0)).label("ones"),
            sa.func.sum(sa.case((values.c.value == 0, 1), else_=0)).label("zeros"),
            sa.func.sum(passing).label("passing"),
            sa.func.sum(verdict).label("verdicts"),
        )
        .group_by(values.c.name)
        .order_by(values.c.name)
    ).all()
    together: dict[str, Together | None] = {}
    verdicts_together: dict[str, Together | None] = {}
    if several:
        value = sa.case((scored, values.c.value))
        passed = sa.case((verdict == 1, sa.cast(passing, sa.Float)))
        for row in totals:
            which = (connection, values, row.name)
            together[row.name] = _together(*which, value, row.total or 0.0, row.found)
            verdicts_together[row.name] = _together(*which, passed, row.passing, row.verdicts)
    ranks = {row.name: Ranks.of(row.found, together.get(row.name)) for row in totals if row.found}
    at_rank = _at_ranks(connection, values, ranks)
    return {
        row.name: msgspec.structs.replace(
            _spread(connection, values, row, ranks[row.name], at_rank) if row.found else NO_VALUES,
            together=together.get(row.name),
            verdicts_together=verdicts_together.get(row.name),
        )
        for row in totals
    }


def _together(
    connection: StoreConnection,
    values: sa.Subquery,
    name: str,
    value: sa.ColumnElement[Any],
    total: float,
    count: int,
) -> Together | None:
    """What the values of each item add up to."""
    if not count:
        return None
    units = (
        sa.select(sa.func.sum(value).label("total"), sa.func.count(value).label("size"))
        .where(values.c.name == name, value.is_not(None))
        .group_by(values.c.item_id)
        .subquery("units")
    )
    distance = units.c.total - units.c.size * sa.literal(total / count, sa.Float)
    number, squares, size_squares = tuple(
        connection.execute(
            sa.select(
                sa.func.count(),
                sa.func.sum(distance * distance),
                sa.func.sum(units.c.size * units.c.size),
            ).select_from(units)
        ).one()
    )
    sums = None
    if number <= FEW_VALUES:
        rows = connection.execute(sa.select(units.c.total, units.c.size))
        sums = [(float(row.total), int(row.size)) for row in rows]
    return Together(int(number), float(squares), sums, float(size_squares))


def _at_ranks(
    connection: StoreConnection, values: sa.Subquery, ranks: Mapping[str, Ranks]
) -> dict[tuple[str, int], float]:
    """The values of each name at the ranks looked for."""
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
            sa.and_(ranked.c.name == name, ranked.c.place.in_(places.all()))
            for name, places in ranks.items()
        )
    )
    rows = connection.execute(sa.select(ranked).where(wanted))
    return {(row.name, row.place): row.value for row in rows}


def _spread(
    connection: StoreConnection,
    values: sa.Subquery,
    row: sa.Row[Any],
    ranks: Ranks,
    at_rank: Mapping[tuple[str, int], float],
) -> Spread:
    edges = edges_of(row.least, row.most)
    distance = values.c.value - sa.literal(row.mean, sa.Double)
    below = [
        sa.func.sum(sa.case((values.c.value < sa.literal(edge, sa.Double), 1), else_=0))
        for edge in edges[1:-1]
    ]
    of_this = (values.c.name == row.name, values.c.value.is_not(None))
    squares, *cumulative = tuple(
        connection.execute(
            sa.select(sa.func.sum(distance * distance), *below).where(*of_this)
        ).one()
    )
    few: list[float] | None = None
    if row.found <= FEW_VALUES:
        few = sorted(connection.execute(sa.select(values.c.value).where(*of_this)).scalars())
    return Spread(
        count=row.found,
        mean=row.mean,
        least=row.least,
        most=row.most,
        total=row.total or 0.0,
        squares=squares,
        ones=row.ones,
        zeros=row.zeros,
        verdicts=row.verdicts,
        passing=row.passing,
        below=tuple(cumulative),
        values=few,
        **ranks.found(lambda rank: at_rank[row.name, rank]),
    )
