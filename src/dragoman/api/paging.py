"""Long lists, a page at a time: ``limit``, ``cursor`` and ``{"items": [...], "next": ...}``."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import msgspec
from fastapi import Depends, Query
from pydantic import BaseModel, Field

from dragoman.errors import InvalidMessage

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_MAX_CURSOR_CHARACTERS = 1024

T = TypeVar("T")
Position = TypeVar("Position")


class Page(BaseModel, Generic[T]):
    """Some items of a list, and where the next ones begin."""

    items: list[T]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None

    def position(self, kind: type[Position]) -> Position | None:
        """Where the page begins; None for the first one."""
        return None if self.cursor is None else decode_cursor(self.cursor, kind)


def _page_request(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum items per page.")] = (
        DEFAULT_LIMIT
    ),
    cursor: Annotated[
        str | None,
        Query(
            max_length=_MAX_CURSOR_CHARACTERS, description="The `next` of the page before this one."
        ),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


Paging = Annotated[PageRequest, Depends(_page_request)]
"""A route's parameter that reads ``limit`` and ``cursor``."""


def encode_cursor(position: object) -> str:
    """A position in a list as callers see it: a word without a meaning to them."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str, kind: type[Position]) -> Position:
    """The position behind a cursor; one that is not of this list is refused."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(urlsafe_b64decode(padded), type=kind)
    except ValueError:
        raise InvalidMessage(
            "The cursor is not one of this list; take `next` from the page before, or leave it out."
        ) from None
