"""The effective settings as people and programs read them, passwords masked."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from dragoman.settings.load import Loaded
from dragoman.settings.tree import KEYS, nested, value_of
from dragoman.settings.wording import as_toml, plain


def as_listing(loaded: Loaded) -> str:
    """A settings file with a comment on the source of every value."""
    paragraphs = []
    for section, keys in groupby(KEYS.values(), key=lambda key: key.section):
        rows = [
            (f"{key.leaf} = {as_toml(value_of(loaded.settings, key.name))}", key) for key in keys
        ]
        width = max(len(text) for text, _ in rows)
        lines = [f"{text:<{width}}  # {loaded.sources[key.name]}" for text, key in rows]
        paragraphs.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(paragraphs)


def as_tree(loaded: Loaded) -> dict[str, Any]:
    """The values as a tree of plain JSON."""
    return nested({name: plain(value_of(loaded.settings, name)) for name in KEYS})
