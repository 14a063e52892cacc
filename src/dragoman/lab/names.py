"""Names that users give: what can be stored, shown on one line and typed again."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from dragoman.errors import InvalidMessage

MAX_NAME_CHARACTERS = 190

_SHOWN_CHARACTERS = 50


def check_name(name: str, of: str) -> None:
    """Refuse a name that is empty, too long, or not printable; `of` says whose name it is."""
    if not name.strip() or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise InvalidMessage(
            f"The name {name[:_SHOWN_CHARACTERS]!r} of {of} cannot be used; use 1 to "
            f"{MAX_NAME_CHARACTERS} printable characters.",
            details={"field": "name"},
        )


def nearest(word: str, known: Collection[str]) -> str | None:
    """The known word closest to a mistyped one; None when none is close."""
    found = get_close_matches(word, list(known), n=1)
    return found[0] if found else None
