"""The known word that a mistyped one was meant to be."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def nearest(word: str, known: Collection[str]) -> str | None:
    """The known word closest to a mistyped one; None when none is close."""
    found = get_close_matches(word, list(known), n=1)
    return found[0] if found else None
