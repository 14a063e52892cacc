"""Aggregates over a mirror, in passes over the columns that each do little.

The first adds everything up and finds the bounds of each field; others find how values are spread
between them, which rows belong together, and what failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.lab.filters import EVERYTHING, MEASURES, SCORE, Filter
from dragoman.lab.mirror.batches import OUTCOME, OUTCOMES, PASSED
from dragoman.lab.mirror.corpora import Corpora, CorpusSum, statistics_of
from dragoman.lab.mirror.grouping import WHOLE, By, Key, MirrorAsker, QueryColumns, found_of, select
from dragoman.lab.mirror.interface import Mirror, MirrorReader
from dragoman.lab.mirror.queries import ITEM, Mirrored
from dragoman.lab.mirror.spreading import FieldValues, Spreads
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
    Together,
    Tried,
    aggregate_of,
    grouped,
    score_aggregate,
    told_by,
)
from dragoman.lab.states import ItemStatus
from dragoman.lab.turn_outcomes import TurnOutcomeKind

_ENDED = "outcome IS NOT NULL"
_FAILED = f"{_ENDED} AND status <> '{ItemStatus.SUCCESS.value}'"
_ITEMS = "count(DISTINCT (item_id, repetition))"
_NOT_SCORED = [outcome for outcome in TurnOutcomeKind if outcome is not TurnOutcomeKind.SCORED]


def grouped_aggregates(
    mirror: Mirror,
    asked: Mirrored,
    wanted: Filter,
    group_by: str | None,
    repetitions: int = 1,
    cluster: str | None = None,
) -> Aggregates:
    """The aggregates of the rows that pass; by the values of a field too, if one is given.

    Rows with the same value in the field `cluster` belong together, as the rows of an item do.
    """
    with mirror.reading() as reader:
        asking = _Asking(reader, asked, repetitions, cluster, mirror.has_snapshots)
        whole = asking.aggregates(By(), wanted)[WHOLE]
        if group_by is None:
            return whole
        values, more = asking.values_of(group_by, wanted)
        by = By(group_by, tuple(values) if more else None)
        found = asking.aggregates(by, wanted) if values else {}
        groups = (
            Group(number if number is not None else text, rows, found_of(found, (number, text)))
            for (number, text), rows in values.items()
        )
        return grouped(whole, groups, more)


class _Asking:
    def __init__(
        self,
        reader: MirrorReader,
        asked: Mirrored,
        repetitions: int,
        cluster: str | None,
        has_snapshots: bool,
    ) -> None:
        self._asker = MirrorAsker(reader, asked)
        self._numbers = asked.numbers
        self._evaluators = asked.evaluators
        self._repetitions = repetitions
        self._cluster = cluster
        self._has_snapshots = has_snapshots
        self._fields = [*MEASURES, *(SCORE + one.name for one in self._evaluators)]
        self._verdicts = [PASSED + one.name for one in self._evaluators]

    def values_of(self, field: str, wanted: Filter) -> tuple[dict[Key, int], int]:
        """The most frequent values of a field, each with its rows, and how many more there are."""
        ask = self._asker.questions()
        columns = [ask.column(field, is_text=False), ask.column(field, is_text=True)]
        found = self._asker.rows(
            ask.select(
                [f"{columns[0]} AS a", f"{columns[1]} AS b", "count(*) AS c"],
                [ask.condition(wanted)],
                "GROUP BY a, b ORDER BY c DESC, a IS NULL, a, b IS NULL, b",
            )
        )
        values: dict[Key, int] = {
            (None if number is None else float(number), text): int(rows)
            for number, text, rows in found[:MAX_GROUPS]
        }
        return values, max(0, len(found) - MAX_GROUPS)

    def aggregates(self, by: By, wanted: Filter) -> dict[Key, Aggregates]:
        first = self._first(by, wanted)
        several = self._repetitions > 1 or any(of.several for of in first.values())
        unit = None
        if several or self._cluster is not None:
            unit = self._cluster or ITEM
        together = {} if unit is None else self._together(by, unit, wanted)
        spreads = Spreads(self._asker, self._fields).of(
            by,
            {key: of.rows for key, of in first.items()},
            {key: of.series for key, of in first.items()},
            together,
            wanted,
        )
        corpora = Corpora(self._asker, self._numbers)
        statistics = {
            one.name: corpora.of(
                one,
                by,
                {key: of.statistics[one.name] for key, of in first.items()},
                unit,
                wanted,
            )
            for one in self._evaluators
        }
        failures = self._failures(by, first, wanted)
        repeated = {
            one.name: self._repeated(by, one.name, wanted) if self._repetitions > 1 else {}
            for one in self._evaluators
        }

        def spread(key: Key, field: str) -> Spread:
            found = together.get(key, {}).get(field)
            return msgspec.structs.replace(spreads[key][field], together=found)

        return {
            key: Aggregates(
                scores={
                    one.name: score_aggregate(
                        msgspec.structs.replace(
                            spread(key, SCORE + one.name),
                            verdicts=of.verdicts[one.name][0],
                            passing=of.verdicts[one.name][1],
                            verdicts_together=together.get(key, {}).get(PASSED + one.name),
                        ),
                        one,
                        of.outcomes[one.name],
                        statistics[one.name].get(key),
                        repeated[one.name].get(key),
                    )
                    for one in self._evaluators
                },
                latency_ms=aggregate_of(spread(key, "latency_ms")),
                tokens=aggregate_of(spread(key, "tokens")),
                cost=aggregate_of(spread(key, "cost")),
                failures=failures.get(key, Failures()),
            )
            for key, of in first.items()
        }

    # --- sums -------------------------------------------------------------------------------------

    def _first(self, by: By, wanted: Filter) -> dict[Key, _First]:
        """How many values there are, their sums and bounds."""
        ask, row = self._asker.questions(), QueryColumns()
        rows = row.take("count(*)", int)
        ended = row.take("count(outcome)", int)
        count_if = self._asker.dialect.count_if
        failing = row.take(count_if.format(condition=_FAILED), int)
        several = row.take("max(turn_no)", int)
        # Of all rows DuckDB knows the bounds without reading them, but not in one question with
        # their sums; two questions agree where nothing is written between them.
        is_every_row = by.field is None and wanted == EVERYTHING
        bounds = self._bounds() if is_every_row and self._has_snapshots else None
        series = {}
        for field in self._fields:
            column = ask.column(field, is_text=False)
            asked = ["count", "sum"] if bounds else ["count", "sum", "min", "max"]
            series[field] = [
                row.take(f"{one}({column})", int if one == "count" else float) for one in asked
            ]
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
                row.take(count_if.format(condition=f"{column} = {OUTCOMES.index(outcome)}"), int)
                for outcome in _NOT_SCORED
            ]
            outcomes[one.name] = counts
        statistics = {}
        for one in self._evaluators:
            columns = statistics_of(self._asker, ask, self._numbers[one.name])
            kept = row.take(f"count({columns[0]})", int) if columns else None
            statistics[one.name] = kept, [row.take(f"sum({column})", float) for column in columns]

        def read(found: Callable[[int], Any]) -> _First:
            return _First(
                rows=found(rows),
                ended=found(ended),
                failing=found(failing),
                several=bool(found(several)),
                series={
                    field: FieldValues(
                        *(found(place) for place in places), *(bounds[field] if bounds else ())
                    )
                    for field, places in series.items()
                },
                verdicts={
                    name: (found(all_), found(passing))
                    for name, (all_, passing) in verdicts.items()
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
                statistics={
                    name: CorpusSum(0, ())
                    if kept is None
                    else CorpusSum(found(kept), tuple(found(place) for place in places))
                    for name, (kept, places) in statistics.items()
                },
            )

        query = select(ask, by, row.columns, [ask.condition(wanted)], by.rest())
        return {key: read(row.filled(rest)) for key, rest in self._asker.answers(by, query)}

    def _bounds(self) -> dict[str, tuple[float, float]]:
        """The least and the greatest value of each field, of all rows."""
        ask, row = self._asker.questions(), QueryColumns()
        taken = {}
        for field in self._fields:
            column = ask.column(field, is_text=False)
            taken[field] = row.take(f"min({column})", float), row.take(f"max({column})", float)
        (answer,) = self._asker.rows(ask.select(row.columns))
        found = row.filled(answer)
        return {field: (found(least), found(most)) for field, (least, most) in taken.items()}

    # --- rows that belong together ----------------------------------------------------------------

    def _together(self, by: By, unit: str, wanted: Filter) -> dict[Key, dict[str, Together]]:
        """What is known of rows that are no observations of their own.

        They are the turns and repetitions of an item, or what a column says belongs together.
        """
        ask, units, means, row = (
            self._asker.questions(),
            QueryColumns("u"),
            QueryColumns("m"),
            QueryColumns(),
        )
        taken: dict[str, tuple[int, int, int, int, int]] = {}
        few_of = self._asker.dialect.few_of
        for field in (*self._fields, *self._verdicts):
            column = ask.column(field, is_text=False)
            total = f"u{units.take(f'sum({column})', float)}"
            size = f"u{units.take(f'count({column})', int)}"
            mean = f"m{means.take(f'sum({total}) / sum({size})', float)}"
            distance = f"({total} - {size} * {mean})"
            taken[field] = (
                row.take(f"count(CASE WHEN {size} > 0 THEN 1 END)", int),
                row.take(f"sum({distance} * {distance})", float),
                row.take(few_of.format(value=total, where=f"{size} > 0", most=FEW_VALUES), list),
                row.take(few_of.format(value=size, where=f"{size} > 0", most=FEW_VALUES), list),
                row.take(f"sum({size} * {size})", float),
            )
        keyed = select(
            ask,
            by,
            [f"{ask.unit(unit)} AS unit", *units.columns],
            [ask.condition(wanted)],
            by.rest("unit"),
        )
        keys = [*by.names, ""]
        query = msgspec.structs.replace(
            keyed,
            text=f"WITH units AS ({keyed.text}), means AS (SELECT {', '.join(keys)}"
            f"{', '.join(means.columns)} FROM units {by.rest()}) "
            f"SELECT {', '.join(keys)}{', '.join(row.columns)} "
            f"FROM {by.joined('units', 'means')} {by.rest()}",
        )
        together: dict[Key, dict[str, Together]] = {}
        for key, rest in self._asker.answers(by, query):
            found = row.filled(rest)
            together[key] = {
                field: Together(
                    units=found(number),
                    squares=found(squares),
                    sums=list(zip(map(float, found(sums)), map(int, found(sizes)), strict=True))
                    if 0 < found(number) <= FEW_VALUES
                    else None,
                    size_squares=found(size_squares),
                )
                for field, (number, squares, sums, sizes, size_squares) in taken.items()
            }
        return together

    def _repeated(self, by: By, name: str, wanted: Filter) -> dict[Key, Repeated]:
        """What the repetitions of each turn tell, in groups of which a turn has the score."""
        ask = self._asker.questions()
        score = ask.column(SCORE + name, is_text=False)
        passed = ask.column(PASSED + name, is_text=False)
        columns = ["item_id", "turn_no", f"{score} AS score", f"{passed} AS passed"]
        tries = select(ask, by, columns, [ask.condition(wanted), f"{score} IS NOT NULL"])
        keys = ", ".join([*by.names, ""])
        turn = ", ".join([*by.names, "item_id", "turn_no"])
        turns = (
            f"SELECT {keys}count(*) AS number, min(middle) AS mean, "
            "sum((score - middle) * (score - middle)) AS squares, "
            "count(passed) AS decided, coalesce(sum(passed), 0) AS passing "
            f"FROM (SELECT *, avg(score) OVER (PARTITION BY {turn}) AS middle "
            f"FROM ({tries.text}) AS scored) AS tries GROUP BY {turn}"
        )
        query = msgspec.structs.replace(
            tries,
            text=f"WITH turns AS ({turns}), "
            f"middles AS (SELECT {keys}avg(mean) AS middle FROM turns {by.rest()}) "
            f"SELECT {keys}decided, passing, count(*), sum(number), sum(squares), "
            "sum((mean - middle) * (mean - middle)), sum(1.0 / number) "
            f"FROM {by.joined('turns', 'middles')} {by.rest('decided', 'passing')}",
        )
        of_groups: dict[Key, list[tuple[Any, ...]]] = {}
        for key, row in self._asker.answers(by, query):
            of_groups.setdefault(key, []).append(row)
        return {key: self._told(rows) for key, rows in of_groups.items()}

    def _told(self, rows: Sequence[tuple[Any, ...]]) -> Repeated:
        number = sum(int(row[2]) for row in rows)
        distances = math.fsum(row[5] for row in rows)
        return told_by(
            Tried(
                freedom=sum(int(row[3]) for row in rows) - number,
                squares=math.fsum(row[4] for row in rows),
                variance=distances / (number - 1) if number > 1 else None,
                share=math.fsum(row[6] for row in rows) / number,
                verdicts={
                    (int(passing), int(decided)): int(turns)
                    for decided, passing, turns, *_ in rows
                    if decided
                },
            ),
            self._repetitions,
        )

    # --- failures ---------------------------------------------------------------------------------

    def _failures(self, by: By, first: Mapping[Key, _First], wanted: Filter) -> dict[Key, Failures]:
        """The items that did not succeed, counted by error code."""
        if not any(of.failing for of in first.values()):
            return {}
        ask = self._asker.questions()
        code = f"coalesce(error_code, '{NO_CODE}')"
        columns = [f"{code} AS code", "item_id", "repetition", "turn_no", "error_message"]
        failed = select(ask, by, columns, [ask.condition(wanted), _FAILED])
        keys = ", ".join([*by.names, ""])
        partition = ", ".join([*by.names, "code"])
        rows = self._asker.answers(
            by,
            msgspec.structs.replace(
                failed,
                text=f"SELECT {keys}code, {_ITEMS} AS items, "
                "max(CASE WHEN place = 1 THEN error_message END) FROM (SELECT *, row_number() "
                f"OVER (PARTITION BY {partition} ORDER BY item_id, repetition, turn_no) AS place "
                f"FROM ({failed.text}) AS failed) AS placed {by.rest('code')} "
                "ORDER BY items DESC, code",
            ),
        )
        causes: dict[Key, list[Cause]] = {}
        for key, (one, number, sample) in rows:
            causes.setdefault(key, []).append(Cause(one, int(number), sample))
        failing = self._count_items(by, _FAILED, wanted)
        items = {key: of.ended for key, of in first.items()}
        if any(of.several for of in first.values()):
            items = self._count_items(by, _ENDED, wanted)
        return {
            key: Failures(
                found_of(failing, key), failing[key] / found_of(items, key), tuple(of_group)
            )
            for key, of_group in causes.items()
        }

    def _count_items(self, by: By, those: str, wanted: Filter) -> dict[Key, int]:
        ask = self._asker.questions()
        query = select(ask, by, [_ITEMS], [ask.condition(wanted), those], by.rest())
        return {key: int(number) for key, (number,) in self._asker.answers(by, query)}


class _First(msgspec.Struct, frozen=True):
    """What the first pass found."""

    rows: int
    ended: int
    failing: int
    several: bool
    """Whether a repetition of an item may have several rows."""
    series: dict[str, FieldValues]
    verdicts: dict[str, tuple[int, int]]
    """Of each score: how many turns are decided, and how many of them pass."""
    outcomes: dict[str, Outcomes]
    statistics: dict[str, CorpusSum]
