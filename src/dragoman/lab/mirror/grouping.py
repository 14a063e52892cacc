"""Questions about groups of rows, and their answers.

How many groups there are does not change the number of questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from dragoman.lab.mirror.batches import Slots
from dragoman.lab.mirror.interface import MirrorAway, MirrorReader
from dragoman.lab.mirror.queries import Mirrored, Query, Questions

Key = tuple[float | None, str | None]
"""What a group has in a field, as a number and as text; of everything, neither."""

WHOLE: Key = (None, None)

Found = TypeVar("Found")


class By(msgspec.Struct, frozen=True):
    """What rows are grouped by: a field, or nothing."""

    field: str | None = None
    only: tuple[Key, ...] | None = None
    """The groups that are asked about, where they are not all."""

    @property
    def names(self) -> list[str]:
        """The columns of a row that say which group it is about."""
        return [] if self.field is None else ["k0", "k1", "k2", "k3"]

    def columns(self, ask: Questions) -> list[str]:
        if self.field is None:
            return []
        number, text = ask.fraction(self.field), ask.column(self.field, is_text=True)
        # None of them is ever missing, so that rows of two tables can be joined by them.
        keys = [f"coalesce({number}, 0)", f"coalesce({text}, '')"]
        keys += [f"({number} IS NULL)", f"({text} IS NULL)"]
        return [f"{key} AS {name}" for key, name in zip(keys, self.names, strict=True)]

    def where(self, ask: Questions) -> list[str]:
        if self.field is None or self.only is None:
            return []
        return [ask.is_one_of(self.field, self.only)]

    def rest(self, *more: str) -> str:
        names = [*self.names, *more]
        return f"GROUP BY {', '.join(names)}" if names else ""

    def joined(self, left: str, right: str) -> str:
        if self.field is None:
            return f"{left} CROSS JOIN {right}"
        return f"{left} INNER JOIN {right} USING ({', '.join(self.names)})"

    def split(self, row: tuple[Any, ...]) -> tuple[Key, tuple[Any, ...]]:
        """The group that a row of an answer is about, and the rest of the row."""
        if self.field is None:
            return WHOLE, row
        number, text, no_number, no_text, *rest = row
        key = (None if no_number else float(number), None if no_text else text)
        return key, tuple(rest)


class MirrorAsker:
    """Asks a mirror about one experiment."""

    def __init__(self, reader: MirrorReader, asked: Mirrored) -> None:
        self._reader = reader
        self._asked = asked
        self.dialect = reader.dialect
        self.slots: Slots = reader.slots(asked.experiment_id)

    def questions(self) -> Questions:
        return Questions(self.dialect, self._asked, self.slots)

    def rows(self, query: Query) -> list[tuple[Any, ...]]:
        return self._reader.ask(query)

    def answers(self, by: By, query: Query) -> list[tuple[Key, tuple[Any, ...]]]:
        """The rows of an answer, each with the group that it is about."""
        return [by.split(row) for row in self.rows(query)]


def select(
    ask: Questions, by: By, columns: Sequence[str], where: Sequence[str], rest: str = ""
) -> Query:
    """A query whose rows begin with what says which group they are about."""
    return ask.select([*by.columns(ask), *columns], [*where, *by.where(ask)], rest)


def given(ask: Questions, of_groups: Mapping[Key, Sequence[float]]) -> str:
    """A table of groups, each with a list of numbers of ours; it can be joined with their rows."""
    rows = []
    for (number, text), numbers in of_groups.items():
        keys = [ask.number(number or 0.0), ask.text(text or "")]
        keys += [f"({int(one is None)} = 1)" for one in (number, text)]
        named = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        rows.append(f"SELECT {', '.join(named)}, {ask.numbers(numbers)} AS given")
    return " UNION ALL ".join(rows)


class QueryColumns:
    """The columns of a query, asked for one by one; their names begin with `prefix`."""

    def __init__(self, prefix: str = "c") -> None:
        self.columns: list[str] = []
        self._prefix = prefix
        self._kinds: list[Callable[..., Any]] = []

    def take(self, expression: str, kind: Callable[..., Any]) -> int:
        """Ask for a column; where it will be."""
        self.columns.append(f"{expression} AS {self._prefix}{len(self.columns)}")
        self._kinds.append(kind)
        return len(self.columns) - 1

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return [f"{self._prefix}{number}" for number in range(len(self.columns))]

    def filled(self, row: tuple[Any, ...]) -> Callable[[int], Any]:
        """What a row has, by the place of the column; a sum of nothing is 0."""

        def found(place: int) -> Any:
            value = row[place]
            return self._kinds[place]() if value is None else self._kinds[place](value)

        return found


def check_same(number: int, before: int) -> None:
    """Stop where rows were written between two questions, on a mirror without snapshots."""
    if number != before:
        raise MirrorAway("The mirror changed while it was read.")


def found_of(of_groups: Mapping[Key, Found], key: Key) -> Found:
    """What was found of a group; where rows were written meanwhile, it may be a new one."""
    if key not in of_groups:
        raise MirrorAway("The mirror changed while it was read.")
    return of_groups[key]
