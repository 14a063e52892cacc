"""The order of result rows, and the place in it where a page ends.

A page begins behind a row, not after so many of them: rows may come to stand elsewhere between two
pages while a run goes on, and the last page costs what the first one does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from dragoman.errors import InvalidFilter, InvalidMessage
from dragoman.lab.filters import (
    ANNOTATION,
    INPUT,
    LABEL,
    MEASURES,
    OUTPUT,
    OWN_TEXTS,
    REPETITION,
    SCORE,
)
from dragoman.lab.repository.fields import Numbers, field_of
from dragoman.lab.repository.statements import storable

SortKey = int | float | str | None

_MAX_NUMBER = 2**31 - 1


class Sorting(msgspec.Struct, frozen=True):
    """One field that rows are sorted by; rows without a value come last."""

    field: str
    descending: bool = False


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row that a page ends with."""

    item_id: str
    turn_no: Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER)]
    keys: tuple[SortKey, ...] = ()
    """What it has in the fields that the rows are sorted by."""
    repetition: Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER)] = 0


class SortValue(msgspec.Struct, frozen=True):
    """One value that rows are sorted by."""

    field: str
    is_text: bool
    descending: bool


def keys_of(sorting: Sequence[Sorting]) -> list[SortValue]:
    """What rows are sorted by; a column that may hold numbers and text has its numbers first."""
    keys: list[SortValue] = []
    for sort in sorting:
        field = sort.field
        if field in OWN_TEXTS or _is_named(field, LABEL):
            keys.append(SortValue(field, True, sort.descending))
        elif field in (REPETITION, *MEASURES) or _is_named(field, SCORE):
            keys.append(SortValue(field, False, sort.descending))
        elif any(_is_named(field, prefix) for prefix in (INPUT, OUTPUT, ANNOTATION)):
            keys += [SortValue(field, is_text, sort.descending) for is_text in (False, True)]
        else:
            raise InvalidFilter(
                f"Results cannot be sorted by {field!r}; use "
                f"{', '.join((*OWN_TEXTS, REPETITION, *MEASURES))}, score.NAME, label.NAME, "
                "input.NAME, output.NAME or annotation.NAME.",
                details={"field": field},
            )
    return keys


def check_place(place: Place, keys: Sequence[SortValue]) -> None:
    """Refuse a place in another order than this one."""
    same = len(place.keys) == len(keys) and all(
        reached is None or isinstance(reached, str) is key.is_text
        for key, reached in zip(keys, place.keys, strict=True)
    )
    if not (same and all(map(_is_comparable, (place.item_id, *place.keys)))):
        raise InvalidMessage(
            "The cursor belongs to a list with another order; take `next` from the page "
            "before, or leave it out."
        )


def _is_comparable(value: SortKey) -> bool:
    """Whether databases can compare it: cursors come from callers, who may write anything."""
    if isinstance(value, str):
        return storable(value) == value
    return value is None or abs(value) <= sys.float_info.max


def _is_named(field: str, prefix: str) -> bool:
    return field.startswith(prefix) and len(field) > len(prefix)


class Ordered:
    """Rows that can be asked for in an order, from a place on."""

    def __init__(
        self,
        shown: sa.Subquery,
        condition: sa.ColumnElement[bool],
        sorting: Sequence[Sorting],
        dialect: str,
        numbers: Numbers = None,
    ) -> None:
        self._keys = keys_of(sorting)
        self._names = [f"key_{number}" for number in range(len(self._keys))]
        values = [
            _compared(field_of(shown, key.field, numbers), key, dialect).label(name)
            for key, name in zip(self._keys, self._names, strict=True)
        ]
        self._rows = sa.select(shown, *values).where(condition).subquery("sorted")

    def page(self, after: Place | None, most: int) -> sa.Subquery:
        """The first rows, or those behind a place."""
        select = sa.select(self._rows)
        if after is not None:
            select = select.where(self._is_behind(after))
        return select.order_by(*self.order(self._rows)).limit(most).subquery("page")

    def order(self, rows: sa.Subquery) -> list[sa.ColumnElement[Any]]:
        """What to order by, also for rows that a page was joined with others to."""
        order: list[sa.ColumnElement[Any]] = []
        for key, name in zip(self._keys, self._names, strict=True):
            value = rows.c[name]
            order += [value.is_(None), value.desc() if key.descending else value.asc()]
        return [*order, rows.c.item_id, rows.c.repetition, rows.c.turn_no]

    def place_of(self, row: sa.Row[Any]) -> Place:
        """The place of a row of a page."""
        keys = tuple(getattr(row, name) for name in self._names)
        return Place(row.item_id, row.turn_no, keys, row.repetition)

    def _is_behind(self, place: Place) -> sa.ColumnElement[bool]:
        check_place(place, self._keys)
        rows = self._rows.c
        turn = sa.tuple_(rows.item_id, rows.repetition, rows.turn_no)
        condition: sa.ColumnElement[bool] = turn > sa.tuple_(
            sa.literal(place.item_id), sa.literal(place.repetition), sa.literal(place.turn_no)
        )
        fields = list(zip(self._keys, self._names, place.keys, strict=True))
        for key, name, reached in reversed(fields):
            value = rows[name]
            if reached is None:  # the last ones: only rows without a value are left
                condition = sa.and_(value.is_(None), condition)
                continue
            further = value < reached if key.descending else value > reached
            condition = sa.or_(further, value.is_(None), sa.and_(value == reached, condition))
        return condition


def _compared(value: sa.ColumnElement[Any], key: SortValue, dialect: str) -> sa.ColumnElement[Any]:
    """The value in the order of its characters, as every other database has it."""
    if key.is_text and dialect == "postgresql":
        return sa.collate(value, "C")
    return value
