"""The order of result rows, and the place in it where a page ends.

A page begins behind a row, not after so many of them: rows may come to stand elsewhere between two
pages while a run goes on, and the last page costs what the first one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from dragoman.errors import InvalidMessage
from dragoman.lab.repository.fields import OWN_FIELDS, Numbers, field_of

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


class Ordered:
    """Rows that can be asked for in an order, from a place on."""

    def __init__(
        self,
        shown: sa.Subquery,
        condition: sa.ColumnElement[bool],
        sorting: Sequence[Sorting],
        numbers: Numbers = None,
    ) -> None:
        self._sorting = sorting
        self._keys = [f"key_{number}" for number in range(len(sorting))]
        values = [
            field_of(shown, sort.field, numbers).label(key)
            for sort, key in zip(sorting, self._keys, strict=True)
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
        for sort, key in zip(self._sorting, self._keys, strict=True):
            value = rows.c[key]
            order += [value.is_(None), value.desc() if sort.descending else value.asc()]
        return [*order, rows.c.item_id, rows.c.repetition, rows.c.turn_no]

    def place_of(self, row: sa.Row[Any]) -> Place:
        """The place of a row of a page."""
        keys = tuple(getattr(row, key) for key in self._keys)
        return Place(row.item_id, row.turn_no, keys, row.repetition)

    def _is_behind(self, place: Place) -> sa.ColumnElement[bool]:
        self._check(place)
        rows = self._rows.c
        turn = sa.tuple_(rows.item_id, rows.repetition, rows.turn_no)
        condition: sa.ColumnElement[bool] = turn > sa.tuple_(
            sa.literal(place.item_id), sa.literal(place.repetition), sa.literal(place.turn_no)
        )
        fields = list(zip(self._sorting, self._keys, place.keys, strict=True))
        for sort, key, reached in reversed(fields):
            value = rows[key]
            if reached is None:  # the last ones: only rows without a value are left
                condition = sa.and_(value.is_(None), condition)
                continue
            further = value < reached if sort.descending else value > reached
            condition = sa.or_(further, value.is_(None), sa.and_(value == reached, condition))
        return condition

    def _check(self, place: Place) -> None:
        """Refuse a place in another order than this one."""
        same = len(place.keys) == len(self._sorting) and all(
            key is None or isinstance(key, str) is (sort.field in OWN_FIELDS)
            for sort, key in zip(self._sorting, place.keys, strict=True)
        )
        if not same:
            raise InvalidMessage(
                "The cursor belongs to a list with another order; take `next` from the page "
                "before, or leave it out."
            )
