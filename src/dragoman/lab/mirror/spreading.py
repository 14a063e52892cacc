"""How values are spread between their bounds: squares, histograms, percentiles.

Few values are read. Of many, one pass counts the values of a field in fine bins, from which the
histogram and the squares follow; exact percentiles, and the values that bound them, are then among
the few values of a few bins, which are cheaper to find than to sort a column. Of groups, the
database computes all that itself.
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
    By,
    Key,
    MirrorAsker,
    QueryColumns,
    check_same,
    found_of,
    given,
    select,
)
from dragoman.lab.repository import (
    BINS,
    FEW_VALUES,
    PERCENTILES,
    Ranks,
    Spread,
    Together,
    edges_of,
    spread_of,
)

FINE_BINS = 2_000
"""So many that, of a million values, the bins of four percentiles hold about as many."""
MOST_HELD = 20_000
"""A bin of more values, as one far value makes of all others, is cut into finer ones."""
_MOST_BETWEEN = 5_000
"""Bins with so many values between them are read with these: one look for all is quicker."""

OfFields = Mapping[str, "FieldValues"]
Units = Mapping[Key, Mapping[str, Together]]
"""What is known of the values of fields that come in units, by group."""


class FieldValues(msgspec.Struct, frozen=True):
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

    def __init__(self, asker: MirrorAsker, fields: Sequence[str]) -> None:
        self._asker = asker
        self._fields = fields

    def of(
        self,
        by: By,
        rows: Mapping[Key, int],
        series: Mapping[Key, OfFields],
        together: Units,
        wanted: Filter,
    ) -> dict[Key, dict[str, Spread]]:
        """How the values of each field are spread between their bounds."""

        def units(key: Key, field: str) -> Together | None:
            return together.get(key, {}).get(field)

        spreads: dict[Key, dict[str, Spread]] = {
            key: dict.fromkeys(self._fields, Spread()) for key in series
        }
        small = [key for key, number in rows.items() if number <= FEW_VALUES]
        if small:
            values = self._values(by, small, self._fields, wanted)
            for key in small:
                for field, listed in values.get(key, {}).items():
                    spreads[key][field] = spread_of(listed, units(key, field))
        many: set[str] = set()
        for field in self._fields:
            counts = {
                key: series[key][field].count for key, number in rows.items() if number > FEW_VALUES
            }
            few = [key for key, count in counts.items() if 0 < count <= FEW_VALUES]
            if few:
                values = self._values(by, few, [field], wanted)
                for key in few:
                    spreads[key][field] = spread_of(values[key][field], units(key, field))
            if any(count > FEW_VALUES for count in counts.values()):
                many.add(field)
        if not many:
            return spreads
        if by.field is None:
            whole = {field: series[WHOLE][field] for field in self._fields if field in many}
            found = self._by_bins(whole, together.get(WHOLE, {}), wanted)
            spreads[WHOLE] |= found
            return spreads
        for key, of_group in self._by_edges(by, sorted(many), series, together, wanted).items():
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
        self,
        by: By,
        fields: Sequence[str],
        series: Mapping[Key, OfFields],
        together: Units,
        wanted: Filter,
    ) -> dict[Key, dict[str, Spread]]:
        """The spreads of fields that have many values in a group, all groups in one question."""
        ask, bounds, row = self._asker.questions(), QueryColumns("b"), QueryColumns()
        dialect = self._asker.dialect
        ranks = {
            key: {
                field: Ranks.of(of_group[field].count, together.get(key, {}).get(field))
                for field in fields
                if of_group[field].count > FEW_VALUES
            }
            for key, of_group in series.items()
        }
        ranks = {key: of_group for key, of_group in ranks.items() if of_group}
        columns = [
            f"{dialect.number_of.format(value=ask.column(field, is_text=False))} AS x{number}"
            for number, field in enumerate(fields)
        ]
        taken: dict[str, tuple[int, int, int, int, list[int]]] = {}
        ordered = []
        for number, field in enumerate(fields):
            x = f"x{number}"
            least, most, mean = (
                f"b{bounds.take(f'{function}({x})', float)}" for function in ("min", "max", "avg")
            )
            # As Python computes the same edges.
            edges = [f"({least} + ({most} - {least}) * {part} / {BINS})" for part in range(1, BINS)]
            taken[field] = (
                row.take(f"count({x})", int),
                row.take(f"sum(({x} - {mean}) * ({x} - {mean}))", float),
                row.take(f"count(CASE WHEN {x} = 1 THEN 1 END)", int),
                row.take(f"count(CASE WHEN {x} = 0 THEN 1 END)", int),
                [row.take(f"count(CASE WHEN {x} < {edge} THEN 1 END)", int) for edge in edges],
            )
            ordered.append(f"{dialect.in_order.format(value=x)} AS o{number}")
        looked_for = given(
            ask,
            {
                key: [rank for field in fields for rank in _padded(of_group.get(field))]
                for key, of_group in ranks.items()
            },
        )
        lists = [_at_given(f"o{number}", number) for number in range(len(fields))]
        among = msgspec.structs.replace(by, only=tuple(ranks))
        picked = select(ask, among, columns, [ask.condition(wanted)])
        keys = ", ".join(by.names)
        query = msgspec.structs.replace(
            picked,
            text=f"WITH picked AS ({picked.text}), bounds AS (SELECT {keys}, "
            f"{', '.join(bounds.columns)} FROM picked {by.rest()}), "
            f"found AS (SELECT {keys}, {', '.join([*row.columns, *ordered])} "
            f"FROM {by.joined('picked', 'bounds')} {by.rest()}), ranks AS ({looked_for}) "
            f"SELECT {keys}, {', '.join([*row.names, *lists])} FROM {by.joined('found', 'ranks')}",
        )
        spreads: dict[Key, dict[str, Spread]] = {}
        for key, rest in self._asker.answers(by, query):
            found = row.filled(rest[: len(row.columns)])
            spreads[key] = {}
            for number, (field, places) in enumerate(taken.items()):
                of_field, wanted_ranks = found_of(series, key)[field], ranks[key].get(field)
                if wanted_ranks is None:
                    continue
                count, squares, ones, zeros, edges_taken = places
                check_same(found(count), of_field.count)
                inner = len(edges_of(of_field.least, of_field.most)) - 2
                listed = rest[len(row.columns) + number]
                at_rank = dict(zip(wanted_ranks.all(), map(float, listed), strict=False))
                spreads[key][field] = of_field.spread(
                    squares=found(squares),
                    ones=found(ones),
                    zeros=found(zeros),
                    below=tuple(found(place) for place in edges_taken[:inner]),
                    **wanted_ranks.found(at_rank.__getitem__),
                )
        return spreads

    def _by_bins(
        self, many: Mapping[str, FieldValues], together: Mapping[str, Together], wanted: Filter
    ) -> dict[str, Spread]:
        """The spreads of fields that have many values, of all rows."""
        ranks = {
            field: Ranks.of(series.count, together.get(field)) for field, series in many.items()
        }
        bins = self._plain_bins(many, wanted)
        for field, series in many.items():
            if field not in bins:
                bins[field] = self._bins(field, series.least, series.most, series, wanted)
        runs: dict[str, list[_Run]] = {}
        for field, series in many.items():
            check_same(sum(one.count for one in bins[field]), series.count)
            cut = _cut(bins[field], series, ranks[field])
            while large := [place for place in cut if bins[field][place].count > MOST_HELD]:
                for place in reversed(large):
                    one = bins[field][place]
                    parts = self._bins(field, one.least, one.most, series, wanted)
                    check_same(sum(part.count for part in parts), one.count)
                    bins[field][place : place + 1] = parts
                cut = _cut(bins[field], series, ranks[field])
            runs[field] = _runs(bins[field], cut)
        self._read(runs, wanted)
        return {
            field: _spread(series, bins[field], runs[field], ranks[field])
            for field, series in many.items()
        }

    def _plain_bins(
        self, many: Mapping[str, FieldValues], wanted: Filter
    ) -> dict[str, list[_FineBin]]:
        """The bins of fields whose values are all the same, or nothing but zeros and ones."""
        bins: dict[str, list[_FineBin]] = {}
        ask, row, taken = self._asker.questions(), QueryColumns(), {}
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
        self, field: str, least: float, most: float, series: FieldValues, wanted: Filter
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

    def _read(self, runs: Mapping[str, Sequence[_Run]], wanted: Filter) -> None:
        """Fill the runs of each field with their values, in order."""
        ask, row = self._asker.questions(), QueryColumns()
        lists: dict[str, int] = {}
        for field, of_field in runs.items():
            if of_field:
                column = ask.column(field, is_text=False)
                inside = " OR ".join(
                    f"{column} BETWEEN {ask.number(one.least)} AND {ask.number(one.most)}"
                    for one in of_field
                )
                values = self._asker.dialect.list_of.format(value=column)
                lists[field] = row.take(f"{values} FILTER (WHERE {inside})", list)
        if not lists:
            return
        (answer,) = self._asker.rows(ask.select(row.columns, [ask.condition(wanted)]))
        found = row.filled(answer)
        for field, place in lists.items():
            listed = sorted(map(float, found(place) or ()))
            for one in runs[field]:
                one.values = listed[bisect_left(listed, one.least) : bisect_right(listed, one.most)]
                check_same(len(one.values), one.count)


class _FineBin(msgspec.Struct, frozen=True):
    """Values that lie close together."""

    count: int
    least: float
    most: float
    squares: float
    """The squared distances from the mean of all values, added up."""

    def is_all(self, value: float) -> bool:
        return self.least == self.most == value


class _Run(msgspec.Struct):
    """Bins that lie side by side, whose values are read."""

    before: int
    """How many values lie before it."""
    count: int
    least: float
    most: float
    values: Sequence[float] = ()


_MOST_RANKS = 3 * len(PERCENTILES)
"""A group is given as many ranks of each field, so that all groups are asked in one question."""


def _padded(ranks: Ranks | None) -> list[int]:
    known = [1] if ranks is None else ranks.all()
    return [*known, *[known[0]] * (_MOST_RANKS - len(known))]


def _at_given(ordered: str, number: int) -> str:
    """The values of an ordered list at the ranks that its group was given for a field."""
    places = range(number * _MOST_RANKS + 1, (number + 1) * _MOST_RANKS + 1)
    return f"[{', '.join(f'{ordered}[CAST(given[{place}] AS BIGINT)]' for place in places)}]"


class _Ordered:
    """Bins in their order, none of which overlaps another, and where a value or a rank is."""

    def __init__(self, bins: Sequence[_FineBin]) -> None:
        self._bins = bins
        self._ends = [one.most for one in bins]
        self.reached = list(accumulate((one.count for one in bins), initial=0))
        """How many values lie before each bin."""

    def at_edge(self, edge: float) -> int:
        """The place of the first bin that is not wholly below the edge."""
        return bisect_left(self._ends, edge)

    def of_rank(self, rank: int) -> int:
        """The place of the bin that has the value of a rank."""
        return bisect_left(self.reached, rank) - 1


def _spread(
    series: FieldValues, bins: Sequence[_FineBin], runs: Sequence[_Run], ranks: Ranks
) -> Spread:
    """What follows from fine bins, and from the values of those that an answer lies in."""
    edges = edges_of(series.least, series.most)[1:-1]
    ordered = _Ordered(bins)
    starts = [one.before for one in runs]

    def at_rank(rank: int) -> float:
        place = bisect_left(starts, rank) - 1
        if place >= 0 and rank <= runs[place].before + runs[place].count:
            return runs[place].values[rank - runs[place].before - 1]
        return bins[ordered.of_rank(rank)].least

    def below(edge: float) -> int:
        place = ordered.at_edge(edge)
        before = ordered.reached[place]
        if bins[place].least >= edge:
            return before
        run = runs[bisect_right(starts, before) - 1]
        return run.before + bisect_left(run.values, edge)

    return series.spread(
        squares=math.fsum(one.squares for one in bins),
        ones=sum(one.count for one in bins if one.is_all(1.0)),
        zeros=sum(one.count for one in bins if one.is_all(0.0)),
        below=tuple(map(below, edges)),
        **ranks.found(at_rank),
    )


def _cut(bins: Sequence[_FineBin], series: FieldValues, ranks: Ranks) -> list[int]:
    """The places of bins of several values that an edge cuts or a rank lies in, in order."""
    ordered = _Ordered(bins)
    edges = edges_of(series.least, series.most)[1:-1]
    at_edges = {(ordered.at_edge(edge), edge) for edge in edges}
    cut = {place for place, edge in at_edges if bins[place].least < edge}
    cut |= {ordered.of_rank(rank) for rank in ranks.all()}
    return [place for place in sorted(cut) if bins[place].least < bins[place].most]


def _runs(bins: Sequence[_FineBin], cut: Sequence[int]) -> list[_Run]:
    """The bins whose values are read; those that lie close together are read as one."""
    runs: list[_Run] = []
    reached = _Ordered(bins).reached
    for place in cut:
        one, before = bins[place], reached[place]
        end = runs[-1].before + runs[-1].count if runs else 0
        if runs and before - end <= _MOST_BETWEEN:
            runs[-1].count = before + one.count - runs[-1].before
            runs[-1].most = one.most
        else:
            runs.append(_Run(before, one.count, one.least, one.most))
    return runs
