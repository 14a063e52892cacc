"""Names that users give: what can be stored, shown on one line and typed again."""

from __future__ import annotations

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
