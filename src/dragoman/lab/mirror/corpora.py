"""What corpus scores and their intervals are computed from, as a mirror adds it up.

Of few units the sums of each are read, and the interval is drawn from them. Of many, one more pass
adds up how far each unit moves the score: its statistics times the slopes of the score, squared.
That is one number a row, whatever the score. Beyond some hundred thousand rows that pass looks at
blocks of them only: the score itself is exact, and how sure it is is known to one part in hundreds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.lab.filters import Filter
from dragoman.lab.mirror.batches import STATISTIC
from dragoman.lab.mirror.grouping import WHOLE, By, Key, MirrorAsker, given, select
from dragoman.lab.mirror.queries import Query, Questions
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.repository import FEW_VALUES, Statistics, slopes_of

_UNIT = "unit"
SAMPLED_ROWS = 50_000
"""How many rows tell how far rows move a score, of at least twice as many."""
BLOCK_ROWS = 2_048
"""Rows that were written one after another, as many as DuckDB reads at a time."""


class CorpusSum(msgspec.Struct, frozen=True):
    """The statistics of one score, added up over rows."""

    rows: int
    sums: tuple[float, ...]


def statistics_of(asker: MirrorAsker, ask: Questions, number: int) -> list[str]:
    """The columns that hold the statistics of an evaluator."""
    columns: list[str] = []
    while asker.slots.find(f"{STATISTIC}{len(columns)}.{number}", is_text=False) is not None:
        columns.append(ask.numbered(f"{STATISTIC}{len(columns)}.{number}", is_text=False))
    return columns


class Corpora:
    """Asks what the corpus scores of an experiment are computed from."""

    def __init__(self, asker: MirrorAsker, numbers: Mapping[str, int]) -> None:
        self._asker = asker
        self._numbers = numbers

    def of(
        self,
        evaluator: EvaluatorSpec,
        by: By,
        added: Mapping[Key, CorpusSum],
        unit: str | None,
        wanted: Filter,
    ) -> dict[Key, Statistics]:
        """The statistics of a score in the groups that have any.

        `unit` is the field whose values say which rows belong together; None: each row is one.
        """
        number = self._numbers[evaluator.name]
        known = {key: one for key, one in added.items() if one.rows}
        if not known:
            return {}
        units = {key: one.rows for key, one in known.items()}
        if unit is not None and any(rows > FEW_VALUES for rows in units.values()):
            units |= self._units(by, number, unit, wanted)
        few = [key for key in known if units[key] <= FEW_VALUES]
        found = {key: Statistics(one.sums) for key, one in known.items()}
        if few:
            for key, parts in self._parts(by, few, number, unit, wanted).items():
                if key in found:
                    found[key] = Statistics(known[key].sums, parts, len(parts))
        slopes = {
            key: of_group
            for key, one in known.items()
            if key not in few and (of_group := slopes_of(evaluator, one.sums)) is not None
        }
        if slopes:
            # Of units with several rows all rows are needed.
            rows = min(known[key].rows for key in slopes)
            each = max(1, rows // SAMPLED_ROWS) if unit is None else 1
            moved = self._moved(by, slopes, number, unit, each, wanted)
            for key, (seen, squares) in moved.items():
                if key in found:
                    count = seen if each == 1 else known[key].rows
                    total = math.fsum(map(operator.mul, slopes[key], known[key].sums))
                    around = max(0.0, squares * count / seen - total**2 / count)
                    found[key] = Statistics(known[key].sums, None, count, around)
        return found

    def _units(self, by: By, number: int, unit: str, wanted: Filter) -> dict[Key, int]:
        """How many units have the statistics."""
        ask = self._asker.questions()
        where = [ask.condition(wanted), f"{self._columns(ask, number)[0]} IS NOT NULL"]
        query = select(ask, by, [f"count(DISTINCT {ask.unit(unit)})"], where, by.rest())
        return {key: int(found) for key, (found,) in self._asker.answers(by, query)}

    def _parts(
        self, by: By, keys: Sequence[Key], number: int, unit: str | None, wanted: Filter
    ) -> dict[Key, list[list[float]]]:
        """What the statistics of each unit add up to, in these groups."""
        ask = self._asker.questions()
        columns = self._columns(ask, number)
        where = [ask.condition(wanted), f"{columns[0]} IS NOT NULL"]
        among = msgspec.structs.replace(by, only=tuple(keys))
        if unit is None:
            named = [f"{column} AS s{place}" for place, column in enumerate(columns)]
            query = select(ask, among, named, where)
        else:
            named = [f"sum({column}) AS s{place}" for place, column in enumerate(columns)]
            rest = by.rest(_UNIT)
            query = select(ask, among, [f"{ask.unit(unit)} AS {_UNIT}", *named], where, rest)
        parts: dict[Key, list[list[float]]] = {}
        for key, row in self._asker.answers(by, query):
            statistics = row if unit is None else row[1:]
            parts.setdefault(key, []).append([float(one or 0.0) for one in statistics])
        return parts

    def _moved(
        self,
        by: By,
        slopes: Mapping[Key, Sequence[float]],
        number: int,
        unit: str | None,
        each: int,
        wanted: Filter,
    ) -> dict[Key, tuple[int, float]]:
        """How many units of these groups were seen, and how far each moves the score, squared.

        One block of rows of `each` is looked at.
        """
        ask = self._asker.questions()
        columns = self._columns(ask, number)
        own = [] if unit is None else [f"{ask.unit(unit)} AS {_UNIT}"]
        where = [ask.condition(wanted), f"{columns[0]} IS NOT NULL"]
        if each > 1:
            where.append(f"row_no % {each * BLOCK_ROWS} < {BLOCK_ROWS}")
        if by.field is None:
            bound = [ask.number(slope) for slope in slopes[WHOLE]]
            rows = select(ask, by, [*own, f"{_product(bound, columns)} AS moved"], where)
        else:
            rows = self._moved_in_groups(ask, by, slopes, own, columns, where)
        keys = ", ".join([*by.names, ""])
        units = rows.text
        if unit is not None:
            units = f"SELECT {keys}sum(moved) AS moved FROM ({units}) AS of_rows {by.rest(_UNIT)}"
        query = msgspec.structs.replace(
            rows,
            text=f"SELECT {keys}count(moved), sum(moved * moved) "
            f"FROM ({units}) AS of_units {by.rest()}",
        )
        return {
            key: (int(seen), float(squares))
            for key, (seen, squares) in self._asker.answers(by, query)
            if seen
        }

    def _moved_in_groups(
        self,
        ask: Questions,
        by: By,
        slopes: Mapping[Key, Sequence[float]],
        own: Sequence[str],
        columns: Sequence[str],
        where: Sequence[str],
    ) -> Query:
        """How far each row moves the score of its group; groups have slopes of their own."""
        places = range(len(columns))
        of_groups = given(ask, slopes)
        picked = select(
            ask,
            msgspec.structs.replace(by, only=tuple(slopes)),
            [*own, *(f"{column} AS s{place}" for place, column in enumerate(columns))],
            where,
        )
        keys = ", ".join(by.names)
        listed = ", ".join(f"given[{place + 1}] AS g{place}" for place in places)
        moved = _product([f"g{place}" for place in places], [f"s{place}" for place in places])
        kept = ", ".join([keys, *([_UNIT] if own else []), f"{moved} AS moved"])
        return msgspec.structs.replace(
            picked,
            text=f"WITH picked AS ({picked.text}), "
            f"slopes AS (SELECT {keys}, {listed} FROM ({of_groups}) AS of_groups) "
            f"SELECT {kept} FROM {by.joined('picked', 'slopes')}",
        )

    def _columns(self, ask: Questions, number: int) -> list[str]:
        return statistics_of(self._asker, ask, number)


def _product(slopes: Sequence[str], columns: Sequence[str]) -> str:
    return " + ".join(f"{slope} * {column}" for slope, column in zip(slopes, columns, strict=True))
