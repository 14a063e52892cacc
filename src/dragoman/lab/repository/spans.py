"""A stretch of items, as a condition on whichever column holds their ids."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import ItemId
from dragoman.lab.repository.statements import among, as_list


class Span(msgspec.Struct, frozen=True):
    """The items after one id up to another; of those, the named ones when some are named."""

    after: str
    last: str
    named: tuple[ItemId, ...] | None = None

    def covers(self, column: sa.ColumnElement[Any]) -> tuple[sa.ColumnElement[bool], ...]:
        if self.named is not None:
            return (among(column, "named", as_list(self.named)),)
        return (column > self.after, column <= self.last)
