"""How values are spread between their bounds: squares, histograms, percentiles.

Few values are read. Of many, one pass counts the values of a field in fine bins, from which the
histogram and the squares follow; exact percentiles are then among the few values of a few bins,
which are cheaper to find than to sort a column. Of groups, the database computes all that itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from dragoman.lab.filters import Filter
from dragoman.lab.mirror.grouping import (
    WHOLE,
    Asker,
    By,
    Key,
    Row,
    check_same,
    found_of,
    select,
)
from dragoman.lab.repository import (
    BINS,
    FEW_VALUES,
    Spread,
    edges_of,
    ranks_of,
    spread_of,
)

FINE_BINS = 2_000
"""So many that, of a million values, the bins of four percentiles hold about as many."""
MOST_HELD = 20_000
"""A bin of more values, as one far value makes of all others, is cut into finer ones."""

OfFields = Mapping[str, "Series"]


class Series(msgspec.Struct, frozen=True):
    """The values of one field."""

    count: int
    total: float
    least: float
    most: float

    def spread(self, **found: Any) -> Spread:
        """This, and what another pass found."""
        return Spread(
            count=self.count,
            mean=self.total / self.count,
            least=self.least,
            most=self.most,
            total=self.total,
            **found,
        )

    def bin_of(self, count: int, value: float) -> _FineBin:
        """So many of its values, which are all the same."""
        distance = value - self.total / self.count
        return _FineBin(count, value, value, count * distance * distance)


class Spreads:
    """Asks how the values of fields are spread, where their sums and bounds are known."""

    def __init__(self, asker: Asker, fields: Sequence[str]) -> None:
        self._asker = asker
        self._fields = fields

    def of(
        self, by: By, rows: Mapping[Key, int], series: Mapping[Key, OfFields], wanted: Filter
    ) -> dict[Key, dict[str, Spread]]:
        """How the values of each field are spread between their bounds."""
        spreads: dict[Key, dict[str, Spread]] = {
            key: dict.fromkeys(self._fields, Spread()) for key in series
        }
        small = [key for key, number in rows.items() if number <= FEW_VALUES]
        if small:
            values = self._values(by, small, self._fields, wanted)
            for key in small:
                for field, listed in values.get(key, {}).items():
                    spreads[key][field] = spread_of(listed)
        many: set[str] = set()
        for field in self._fields:
            counts = {
                key: series[key][field].count for key, number in rows.items() if number > FEW_VALUES
            }
            few = [key for key, count in counts.items() if 0 < count <= FEW_VALUES]
            if few:
                values = self._values(by, few, [field], wanted)
                for key in few:
                    spreads[key][field] = spread_of(values[key][field])
            if any(count > FEW_VALUES for count in counts.values()):
                many.add(field)
        if not many:
            return spreads
        if by.field is None:
            whole = {field: series[WHOLE][field] for field in self._fields if field in many}
            spreads[WHOLE] |= self._by_bins(whole, wanted)
            return spreads
        for key, of_group in self._by_edges(by, sorted(many), series, wanted).items():
            spreads[key] |= of_group
        return spreads

    def _values(
        self, by: By, keys: Sequence[Key], fields: Sequence[str], wanted: Filter
    ) -> dict[Key, dict[str, list[float]]]:
        """The values of fields, in order, in these groups."""
        ask = self._asker.questions()
        columns = [ask.column(field, is_text=False) for field in fields]
        where = [ask.condition(wanted)]
        if len(columns) == 1:
            where.append(f"{columns[0]} IS NOT NULL")
        among = msgspec.structs.replace(by, only=tuple(keys))
        named = [f"{column} AS v{number}" for number, column in enumerate(columns)]
        found: dict[Key, dict[str, list[float]]] = {
            key: {field: [] for field in fields} for key in keys
        }
        for key, row in self._asker.answers(by, select(ask, among, named, where)):
            if key in found:
                for field, value in zip(fields, row, strict=True):
                    if value is not None:
                        found[key][field].append(float(value))
        for of_group in found.values():
            for listed in of_group.values():
                listed.sort()
        return found

    def _by_edges(
        self, by: By, fields: Sequence[str], series: Mapping[Key, OfFields], wanted: Filter
    ) -> dict[Key, dict[str, Spread]]:
        """The spreads of fields that have many values in a group, all groups in one question."""
        ask, bounds, row = self._asker.questions(), Row("b"), Row()
        dialect = self._asker.dialect
        columns = [
            f"{dialect.number_of.format(value=ask.column(field, is_text=False))} AS x{number}"
            for number, field in enumerate(fields)
        ]
        taken: dict[str, tuple[int, int, int, list[int], int]] = {}
        for number, field in enumerate(fields):
            x = f"x{number}"
            least, most, mean = (
                f"b{bounds.take(f'{function}({x})', float)}" for function in ("min", "max", "avg")
            )
            # As Python computes the same edges.
            edges = [f"({least} + ({most} - {least}) * {part} / {BINS})" for part in range(1, BINS)]
            taken[field] = (
                row.take(f"sum(({x} - {mean}) * ({x} - {mean}))", float),
                row.take(f"count(CASE WHEN {x} = 1 THEN 1 END)", int),
                row.take(f"count(CASE WHEN {x} = 0 THEN 1 END)", int),
                [row.take(f"count(CASE WHEN {x} < {edge} THEN 1 END)", int) for edge in edges],
                row.take(dialect.percentiles.format(value=x), list),
            )
        picked = select(ask, by, columns, [ask.condition(wanted)])
        keys = ", ".join(by.names)
        query = msgspec.structs.replace(
            picked,
            text=f"WITH picked AS ({picked.text}), bounds AS (SELECT {keys}, "
            f"{', '.join(bounds.columns)} FROM picked {by.rest()}) "
            f"SELECT {keys}, {', '.join(row.columns)} FROM {by.joined('picked', 'bounds')} "
            f"{by.rest()}",
        )
        spreads: dict[Key, dict[str, Spread]] = {}
        for key, rest in self._asker.answers(by, query):
            found = row.filled(rest)
            spreads[key] = {}
            for field, (squares, ones, zeros, edges_taken, percentiles) in taken.items():
                of_field = found_of(series, key)[field]
                if of_field.count <= FEW_VALUES:
                    continue
                names = list(ranks_of(of_field.count))
                inner = len(edges_of(of_field.least, of_field.most)) - 2
                check_same(len(found(percentiles)), len(names))
                spreads[key][field] = of_field.spread(
                    squares=found(squares),
                    ones=found(ones),
                    zeros=found(zeros),
                    percentiles={
                        name: float(value)
                        for name, value in zip(names, found(percentiles), strict=True)
                    },
                    below=tuple(found(place) for place in edges_taken[:inner]),
                )
        return spreads

    def _by_bins(self, many: Mapping[str, Series], wanted: Filter) -> dict[str, Spread]:
        """The spreads of fields that have many values, of all rows."""
        bins = self._plain_bins(many, wanted)
        for field, series in many.items():
            if field not in bins:
                bins[field] = self._bins(field, series.least, series.most, series, wanted)
        for field, series in many.items():
            check_same(sum(one.count for one in bins[field]), series.count)
            while large := [one for one in _cut(bins[field], series) if one.count > MOST_HELD]:
                finer = {
                    one: self._bins(field, one.least, one.most, series, wanted) for one in large
                }
                for one, parts in finer.items():
                    check_same(sum(part.count for part in parts), one.count)
                bins[field] = [part for one in bins[field] for part in finer.get(one, [one])]
        held = self._held_by(
            {field: _cut(bins[field], series) for field, series in many.items()}, wanted
        )
        return {
            field: _spread(series, bins[field], held.get(field, {}))
            for field, series in many.items()
        }

    def _plain_bins(self, many: Mapping[str, Series], wanted: Filter) -> dict[str, list[_FineBin]]:
        """The bins of fields whose values are all the same, or nothing but zeros and ones."""
        bins: dict[str, list[_FineBin]] = {}
        ask, row, taken = self._asker.questions(), Row(), {}
        for field, series in many.items():
            if series.least == series.most:
                bins[field] = [series.bin_of(series.count, series.least)]
            elif (series.least, series.most) == (0, 1):
                column = ask.column(field, is_text=False)
                taken[field] = [
                    row.take(
                        self._asker.dialect.count_if.format(condition=f"{column} = {value}"), int
                    )
                    for value in (0, 1)
                ]
        if taken:
            (answer,) = self._asker.rows(ask.select(row.columns, [ask.condition(wanted)]))
            found = row.filled(answer)
            for field, places in taken.items():
                series, counts = many[field], [found(place) for place in places]
                if sum(counts) == series.count:
                    bins[field] = [
                        series.bin_of(count, float(value)) for value, count in enumerate(counts)
                    ]
        return bins

    def _bins(
        self, field: str, least: float, most: float, series: Series, wanted: Filter
    ) -> list[_FineBin]:
        """The values between two bounds in fine bins, in order."""
        ask = self._asker.questions()
        column = ask.column(field, is_text=False)
        where = [ask.condition(wanted), f"{column} IS NOT NULL"]
        if (least, most) != (series.least, series.most):
            where.append(f"{column} >= {ask.number(least)} AND {column} <= {ask.number(most)}")
        distance = f"({column} - {ask.number(series.total / series.count)})"
        reach = most - least
        place = column  # a bin for each value, where bounds are the same, or too close or too far
        if reach and math.isfinite(FINE_BINS / reach) and math.isfinite(reach):
            # As values grow so does this, whatever is rounded: no bin overlaps another.
            place = self._asker.dialect.whole.format(
                value=f"({column} - {ask.number(least)}) * {ask.number(FINE_BINS / reach)}"
            )
        columns = ["count(*)", f"min({column})", f"max({column})", f"sum({distance} * {distance})"]
        rows = self._asker.rows(
            ask.select([f"{place} AS place", *columns], where, "GROUP BY place")
        )
        found = [
            _FineBin(int(count), float(low), float(high), float(squares or 0.0))
            for _, count, low, high, squares in rows
        ]
        return sorted(found, key=lambda one: one.least)

    def _held_by(
        self, bins: Mapping[str, Sequence[_FineBin]], wanted: Filter
    ) -> dict[str, dict[_FineBin, list[float]]]:
        """The values of these bins of each field, in order."""
        ask, row = self._asker.questions(), Row()
        lists: dict[str, int] = {}
        for field, of_field in bins.items():
            if of_field:
                column = ask.column(field, is_text=False)
                inside = " OR ".join(
                    f"{column} BETWEEN {ask.number(one.least)} AND {ask.number(one.most)}"
                    for one in of_field
                )
                values = self._asker.dialect.list_of.format(value=column)
                lists[field] = row.take(f"{values} FILTER (WHERE {inside})", list)
        if not lists:
            return {}
        (answer,) = self._asker.rows(ask.select(row.columns, [ask.condition(wanted)]))
        found = row.filled(answer)
        held: dict[str, dict[_FineBin, list[float]]] = {}
        for field, place in lists.items():
            listed = sorted(map(float, found(place) or ()))
            held[field] = {
                one: listed[bisect_left(listed, one.least) : bisect_right(listed, one.most)]
                for one in bins[field]
            }
            for one, inside_it in held[field].items():
                check_same(len(inside_it), one.count)
        return held


class _FineBin(msgspec.Struct, frozen=True):
    """Values that lie close together."""

    count: int
    least: float
    most: float
    squares: float
    """The squared distances from the mean of all values, added up."""

    def is_all(self, value: float) -> bool:
        return self.least == self.most == value


class _Ordered:
    """Bins in their order, none of which overlaps another, and where a value or a rank is."""

    def __init__(self, bins: Sequence[_FineBin]) -> None:
        self._bins = bins
        self._ends = [one.most for one in bins]
        self._reached = list(accumulate((one.count for one in bins), initial=0))

    def at_edge(self, edge: float) -> tuple[_FineBin, int]:
        """The first bin that is not wholly below the edge, and how many values are before it."""
        place = bisect_left(self._ends, edge)
        return self._bins[place], self._reached[place]

    def of_rank(self, rank: int) -> tuple[_FineBin, int]:
        """The bin of the value of a rank, and the rank of the value in it, from 1."""
        place = bisect_left(self._reached, rank) - 1
        return self._bins[place], rank - self._reached[place]


def _spread(
    series: Series, bins: Sequence[_FineBin], held: Mapping[_FineBin, Sequence[float]]
) -> Spread:
    """What follows from fine bins, and from the values of those that an answer lies in."""
    ranks, edges = ranks_of(series.count), edges_of(series.least, series.most)[1:-1]
    ordered = _Ordered(bins)
    return series.spread(
        squares=math.fsum(one.squares for one in bins),
        ones=sum(one.count for one in bins if one.is_all(1.0)),
        zeros=sum(one.count for one in bins if one.is_all(0.0)),
        percentiles={name: _at_rank(ordered, held, rank) for name, rank in ranks.items()},
        below=tuple(_below(ordered, held, edge) for edge in edges),
    )


def _cut(bins: Sequence[_FineBin], series: Series) -> list[_FineBin]:
    """The bins of several values that an edge of the histogram cuts or a percentile lies in."""
    ordered = _Ordered(bins)
    edges = edges_of(series.least, series.most)[1:-1]
    at_edges = {(ordered.at_edge(edge)[0], edge) for edge in edges}
    cut = {one for one, edge in at_edges if one.least < edge}
    cut |= {ordered.of_rank(rank)[0] for rank in ranks_of(series.count).values()}
    return [one for one in cut if one.least < one.most]


def _at_rank(bins: _Ordered, held: Mapping[_FineBin, Sequence[float]], rank: int) -> float:
    one, inside = bins.of_rank(rank)
    return held[one][inside - 1] if one in held else one.least


def _below(bins: _Ordered, held: Mapping[_FineBin, Sequence[float]], edge: float) -> int:
    """How many values lie below an edge."""
    one, before = bins.at_edge(edge)
    return before + (bisect_left(held[one], edge) if one.least < edge else 0)
