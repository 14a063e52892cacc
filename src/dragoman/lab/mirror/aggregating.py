"""Aggregates over a mirror, in passes over the columns that each do little.

The first adds everything up and finds the bounds of each field. Another counts the values of a
field in fine bins, from which the histogram and the squares follow; exact percentiles are then
among the few values of a few bins, which are cheaper to find than to sort a column.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import MEASURES, SCORE, AllOf, Condition, Filter, Op
from dragoman.lab.mirror.batches import OUTCOME, OUTCOMES, PASSED, STATISTIC, Slots
from dragoman.lab.mirror.interface import Mirror, MirrorAway, Reader
from dragoman.lab.mirror.queries import Mirrored, Questions
from dragoman.lab.outcomes import Outcome
from dragoman.lab.repository import (
    FEW_VALUES,
    MAX_GROUPS,
    NO_CODE,
    Aggregates,
    Cause,
    Failures,
    Group,
    Outcomes,
    Repeated,
    Spread,
    Tried,
    aggregate_of,
    edges_of,
    grouped,
    ranks_of,
    score_aggregate,
    spread_of,
    told_by,
)
from dragoman.lab.states import ITEM_ENDED, ItemStatus

_ENDED = f"status IN ({', '.join(repr(status.value) for status in sorted(ITEM_ENDED))})"
_ITEMS = "count(DISTINCT (item_id, repetition))"
FINE_BINS = 2_000
"""So many that, of a million values, the bins of four percentiles hold about as many."""
_NOT_SCORED = [outcome for outcome in Outcome if outcome is not Outcome.SCORED]


def grouped_aggregates(
    mirror: Mirror,
    asked: Mirrored,
    wanted: Filter,
    group_by: str | None,
    repetitions: int = 1,
) -> Aggregates:
    """The aggregates of the rows that pass; by the values of a field too, if one is given."""
    with mirror.reading() as reader:
        asking = _Asking(reader, asked, repetitions)
        whole = asking.aggregates(wanted)
        if group_by is None:
            return whole
        values, more = asking.values_of(group_by, wanted)
        groups = (
            Group(value, rows, asking.aggregates(AllOf((wanted, _has(group_by, value)))))
            for value, rows in values
        )
        return grouped(whole, groups, more)


def _has(field: str, value: float | str | None) -> Condition:
    return Condition(field, Op.IS_NULL) if value is None else Condition(field, Op.EQUAL, value)


class _Asking:
    def __init__(self, reader: Reader, asked: Mirrored, repetitions: int) -> None:
        self._reader = reader
        self._asked = asked
        self._evaluators = asked.evaluators
        self._repetitions = repetitions
        self._slots: Slots = reader.slots(asked.experiment_id)

    def values_of(
        self, field: str, wanted: Filter
    ) -> tuple[list[tuple[float | str | None, int]], int]:
        """The most frequent values of a field, each with its rows, and how many more there are."""
        ask = self._questions()
        columns = [ask.column(field, is_text=False), ask.column(field, is_text=True)]
        grouped = self._reader.ask(
            ask.select(
                [f"{columns[0]} AS a", f"{columns[1]} AS b", "count(*) AS c"],
                [ask.condition(wanted)],
                "GROUP BY a, b ORDER BY c DESC, a IS NULL, a, b IS NULL, b",
            )
        )
        values = [
            (float(number) if number is not None else text, int(rows))
            for number, text, rows in grouped
        ]
        return values[:MAX_GROUPS], max(0, len(values) - MAX_GROUPS)

    def aggregates(self, wanted: Filter) -> Aggregates:
        fields = [*MEASURES, *(SCORE + one.name for one in self._evaluators)]
        first = self._first(fields, wanted)
        spreads = self._spreads(dict(zip(fields, first.series, strict=True)), wanted)
        scores = {
            one.name: score_aggregate(
                msgspec.structs.replace(
                    spreads[SCORE + one.name],
                    verdicts=first.verdicts[one.name][0],
                    passing=first.verdicts[one.name][1],
                ),
                one,
                first.outcomes[one.name],
                first.sums[one.name],
                self._repeated(one.name, wanted) if self._repetitions > 1 else None,
            )
            for one in self._evaluators
        }
        return Aggregates(
            scores=scores,
            latency_ms=aggregate_of(spreads["latency_ms"]),
            tokens=aggregate_of(spreads["tokens"]),
            cost=aggregate_of(spreads["cost"]),
            failures=self._failures(first, wanted),
        )

    def _first(self, fields: Sequence[str], wanted: Filter) -> _First:
        """How many values there are, their sums and bounds."""
        ask, row = self._questions(), _Row()
        ended = row.take("count(CASE WHEN " + _ENDED + " THEN 1 END)", int)
        not_well = f"{_ENDED} AND status <> '{ItemStatus.SUCCESS.value}'"
        failing = row.take(f"count(CASE WHEN {not_well} THEN 1 END)", int)
        several = row.take("max(turn_no)", int)
        series = []
        for field in fields:
            column = ask.column(field, is_text=False)
            series.append(
                (
                    row.take(f"count({column})", int),
                    row.take(f"sum({column})", float),
                    row.take(f"min({column})", float),
                    row.take(f"max({column})", float),
                )
            )
        verdicts = {}
        for one in self._evaluators:
            column = ask.column(PASSED + one.name, is_text=False)
            verdicts[one.name] = [
                row.take(f"{function}({column})", int) for function in ("count", "sum")
            ]
        outcomes = {}
        for one in self._evaluators:
            column = f"coalesce({ask.column(OUTCOME + one.name, is_text=False)}, outcome)"
            counts = [row.take(f"count({column})", int)]
            counts += [
                row.take(f"count(CASE WHEN {column} = {OUTCOMES.index(outcome)} THEN 1 END)", int)
                for outcome in _NOT_SCORED
            ]
            outcomes[one.name] = counts
        sums = {}
        for one in self._evaluators:
            columns = self._statistics(ask, one.name)
            kept = row.take(f"count({columns[0]})", int) if columns else None
            sums[one.name] = kept, [row.take(f"sum({column})", float) for column in columns]
        found = row.filled(self._reader.ask(ask.select(row.columns, [ask.condition(wanted)])))
        return _First(
            ended=found(ended),
            failing=found(failing),
            several=bool(found(several)),
            series=[_Series(*(found(place) for place in places)) for places in series],
            verdicts={
                name: (found(all_), found(passing)) for name, (all_, passing) in verdicts.items()
            },
            outcomes={
                name: Outcomes(
                    scored=found(total) - sum(found(place) for place in others),
                    **{
                        outcome.value: found(place)
                        for outcome, place in zip(_NOT_SCORED, others, strict=True)
                    },
                )
                for name, (total, *others) in outcomes.items()
            },
            sums={
                name: None
                if kept is None or not found(kept)
                else [found(place) for place in places]
                for name, (kept, places) in sums.items()
            },
        )

    def _statistics(self, ask: Questions, name: str) -> list[str]:
        number = self._asked.numbers[name]
        columns: list[str] = []
        while self._slots.find(f"{STATISTIC}{len(columns)}.{number}", is_text=False) is not None:
            columns.append(ask.numbered(f"{STATISTIC}{len(columns)}.{number}", is_text=False))
        return columns

    def _repeated(self, name: str, wanted: Filter) -> Repeated | None:
        """What the repetitions of each turn tell; None where no turn has the score."""
        ask = self._questions()
        score = ask.column(SCORE + name, is_text=False)
        passed = ask.column(PASSED + name, is_text=False)
        tries = ask.select(
            [
                "item_id",
                "turn_no",
                f"{score} AS score",
                f"{passed} AS passed",
                f"avg({score}) OVER (PARTITION BY item_id, turn_no) AS middle",
            ],
            [ask.condition(wanted), f"{score} IS NOT NULL"],
        )
        turns = (
            "SELECT count(*) AS number, min(middle) AS mean, "
            "sum((score - middle) * (score - middle)) AS squares, "
            "count(passed) AS decided, coalesce(sum(passed), 0) AS passing "
            f"FROM ({tries.text}) AS tries GROUP BY item_id, turn_no"
        )
        groups = self._reader.ask(
            msgspec.structs.replace(
                tries,
                text="SELECT decided, passing, count(*), sum(number), sum(squares), sum(mean), "
                f"sum(1.0 / number) FROM ({turns}) AS turns GROUP BY decided, passing",
            )
        )
        if not groups:
            return None
        number = sum(int(group[2]) for group in groups)
        mean = math.fsum(group[5] for group in groups) / number
        spread = self._reader.ask(
            msgspec.structs.replace(
                tries,
                text=f"SELECT sum((mean - {mean!r}) * (mean - {mean!r})) FROM ({turns}) AS turns",
            )
        )
        return told_by(
            Tried(
                freedom=sum(int(group[3]) for group in groups) - number,
                squares=math.fsum(group[4] for group in groups),
                variance=spread[0][0] / (number - 1) if number > 1 else None,
                share=math.fsum(group[6] for group in groups) / number,
                verdicts={
                    (int(passing), int(decided)): int(turns)
                    for decided, passing, turns, *_ in groups
                    if decided
                },
            ),
            self._repetitions,
        )

    def _spreads(self, fields: Mapping[str, _Series], wanted: Filter) -> dict[str, Spread]:
        """How the values of each field are spread between their bounds."""
        many = {field: series for field, series in fields.items() if series.count > FEW_VALUES}
        bins = {field: self._bins(field, series, wanted) for field, series in many.items()}
        held = self._held_by(
            {field: _cut(bins[field], series) for field, series in many.items()}, wanted
        )
        return {
            field: _spread(series, bins[field], held.get(field, {}))
            if field in many
            else spread_of(self._values(field, wanted) if series.count else ())
            for field, series in fields.items()
        }

    def _bins(self, field: str, series: _Series, wanted: Filter) -> list[_FineBin]:
        """The values in fine bins, in order."""
        ask = self._questions()
        column = ask.column(field, is_text=False)
        distance = f"({column} - {ask.number(series.total / series.count)})"
        reach = series.most - series.least
        place = column  # a bin for each value, where bounds are the same, or too close or too far
        if reach and math.isfinite(FINE_BINS / reach) and math.isfinite(reach):
            # As values grow so does this, whatever is rounded: no bin overlaps another.
            place = self._reader.dialect.whole.format(
                value=f"({column} - {ask.number(series.least)}) * {ask.number(FINE_BINS / reach)}"
            )
        columns = ["count(*)", f"min({column})", f"max({column})", f"sum({distance} * {distance})"]
        rows = self._reader.ask(
            ask.select(
                [f"{place} AS place", *columns],
                [ask.condition(wanted), f"{column} IS NOT NULL"],
                "GROUP BY place ORDER BY place",
            )
        )
        bins = [
            _FineBin(int(count), float(least), float(most), float(squares or 0.0))
            for _, count, least, most, squares in rows
        ]
        _check_same(sum(one.count for one in bins), series.count)
        return bins

    def _held_by(
        self, bins: Mapping[str, Sequence[_FineBin]], wanted: Filter
    ) -> dict[str, dict[_FineBin, list[float]]]:
        """The values of these bins of each field, in order."""
        ask, row = self._questions(), _Row()
        lists: dict[str, list[tuple[_FineBin, int]]] = {}
        for field, of_field in bins.items():
            column = ask.column(field, is_text=False)
            values = self._reader.dialect.list_of.format(value=column)
            for one in of_field:
                least, most = ask.number(one.least), ask.number(one.most)
                inside = f"{column} >= {least} AND {column} <= {most}"
                taken = row.take(f"{values} FILTER (WHERE {inside})", list)
                lists.setdefault(field, []).append((one, taken))
        if not lists:
            return {}
        found = row.filled(self._reader.ask(ask.select(row.columns, [ask.condition(wanted)])))
        held: dict[str, dict[_FineBin, list[float]]] = {}
        for field, taken_of in lists.items():
            held[field] = {one: sorted(map(float, found(taken) or ())) for one, taken in taken_of}
            for one, listed in held[field].items():
                _check_same(len(listed), one.count)
        return held

    def _values(self, field: str, wanted: Filter) -> list[float]:
        ask = self._questions()
        column = ask.column(field, is_text=False)
        where = [ask.condition(wanted), f"{column} IS NOT NULL"]
        rows = self._reader.ask(ask.select([f"{column} AS v"], where, "ORDER BY v"))
        return [float(value) for (value,) in rows]

    def _failures(self, first: _First, wanted: Filter) -> Failures:
        """The items that did not succeed, counted by error code."""
        if not first.failing:
            return Failures()
        ask = self._questions()
        failed = f"{_ENDED} AND status <> '{ItemStatus.SUCCESS.value}'"
        code = f"coalesce(error_code, '{NO_CODE}')"
        place = f"row_number() OVER (PARTITION BY {code} ORDER BY item_id, repetition, turn_no)"
        inner = ask.select(
            [f"{code} AS code", "item_id", "repetition", "error_message", f"{place} AS place"],
            [ask.condition(wanted), failed],
        )
        rows = self._reader.ask(
            msgspec.structs.replace(
                inner,
                text=f"SELECT code, {_ITEMS} AS items, "
                "max(CASE WHEN place = 1 THEN error_message END) "
                f"FROM ({inner.text}) AS failed GROUP BY code ORDER BY items DESC, code",
            )
        )
        failing = self._count_items(ask_if=failed, wanted=wanted)
        items = self._count_items(_ENDED, wanted) if first.several else first.ended
        return Failures(
            items=failing,
            share=failing / items if items else 0.0,
            causes=tuple(Cause(code, int(number), sample) for code, number, sample in rows),
        )

    def _count_items(self, ask_if: str, wanted: Filter) -> int:
        ask = self._questions()
        query = ask.select([_ITEMS], [ask.condition(wanted), ask_if])
        return int(self._reader.ask(query)[0][0])

    def _questions(self) -> Questions:
        return Questions(self._reader.dialect, self._asked, self._slots)


class _Series(msgspec.Struct, frozen=True):
    """The values of one field."""

    count: int
    total: float
    least: float
    most: float


class _FineBin(msgspec.Struct, frozen=True):
    """Values that lie close together."""

    count: int
    least: float
    most: float
    squares: float
    """The squared distances from the mean of all values, added up."""

    def is_all(self, value: float) -> bool:
        return self.least == self.most == value


def _spread(
    series: _Series, bins: Sequence[_FineBin], held: Mapping[_FineBin, Sequence[float]]
) -> Spread:
    """What follows from fine bins, and from the values of those that an answer lies in."""
    ranks, edges = ranks_of(series.count), edges_of(series.least, series.most)[1:-1]
    return Spread(
        count=series.count,
        mean=series.total / series.count,
        least=series.least,
        most=series.most,
        total=series.total,
        squares=math.fsum(one.squares for one in bins),
        ones=sum(one.count for one in bins if one.is_all(1.0)),
        zeros=sum(one.count for one in bins if one.is_all(0.0)),
        percentiles={name: _at_rank(bins, held, rank) for name, rank in ranks.items()},
        below=tuple(_below(bins, held, edge) for edge in edges),
    )


def _cut(bins: Sequence[_FineBin], series: _Series) -> list[_FineBin]:
    """The bins of several values that an edge of the histogram cuts or a percentile lies in."""
    edges = edges_of(series.least, series.most)[1:-1]
    cut = {one for edge in edges for one in bins if one.least < edge <= one.most}
    cut |= {_of_rank(bins, rank)[0] for rank in ranks_of(series.count).values()}
    return [one for one in cut if one.least < one.most]


def _check_same(number: int, before: int) -> None:
    """Stop where rows were written between two questions, on a mirror without snapshots."""
    if number != before:
        raise MirrorAway("The mirror changed while it was read.")


def _of_rank(bins: Sequence[_FineBin], rank: int) -> tuple[_FineBin, int]:
    """The bin of the value of a rank, and the rank of the value in it, from 1."""
    for one in bins:
        if rank <= one.count:
            return one, rank
        rank -= one.count
    raise AssertionError("bins hold every value")


def _at_rank(
    bins: Sequence[_FineBin], held: Mapping[_FineBin, Sequence[float]], rank: int
) -> float:
    one, inside = _of_rank(bins, rank)
    return held[one][inside - 1] if one in held else one.least


def _below(bins: Sequence[_FineBin], held: Mapping[_FineBin, Sequence[float]], edge: float) -> int:
    """How many values lie below an edge."""
    number = 0
    for one in bins:
        if one.most < edge:
            number += one.count
        elif one.least < edge:
            number += bisect_left(held[one], edge)
    return number


class _First(msgspec.Struct, frozen=True):
    """What the first pass found."""

    ended: int
    failing: int
    several: bool
    """Whether a repetition of an item may have several rows."""
    series: list[_Series]
    verdicts: dict[str, tuple[int, int]]
    """Of each score: how many turns are decided, and how many of them pass."""
    outcomes: dict[str, Outcomes]
    sums: dict[str, list[float] | None]


class _Row:
    """The columns of a query with one row, asked for one by one."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self._kinds: list[Callable[[Any], Any]] = []

    def take(self, expression: str, kind: Callable[[Any], Any]) -> int:
        """Ask for a column; where it will be."""
        self.columns.append(f"{expression} AS c{len(self.columns)}")
        self._kinds.append(kind)
        return len(self.columns) - 1

    def filled(self, rows: list[tuple[Any, ...]]) -> Callable[[int], Any]:
        """What a column has, by its place; a sum of nothing is 0."""
        (row,) = rows

        def found(place: int) -> Any:
            value = row[place]
            return 0 if value is None else self._kinds[place](value)

        return found
