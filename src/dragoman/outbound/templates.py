"""``{{column}}`` in a request, filled from a turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
else:
    # The decoder of stored documents cannot follow a type that mentions itself.
    JsonValue = Any

_PLACE = re.compile(r"\{\{\s*(?P<name>[^{}]+?)\s*\}\}")


def places(template: JsonValue) -> Iterator[str]:
    """The names that a template wants filled."""
    if isinstance(template, str):
        yield from (place["name"] for place in _PLACE.finditer(template))
    elif isinstance(template, list):
        for part in template:
            yield from places(part)
    elif isinstance(template, dict):
        for part in template.values():
            yield from places(part)


def filled(template: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """The template with every place filled; KeyError names a value that is missing.

    Text that is a place and nothing else becomes the value itself, so that a number stays a
    number and a list a list. Within other text a value stands as text.
    """
    if isinstance(template, str):
        if whole := _PLACE.fullmatch(template):
            return values[whole["name"]]
        return _PLACE.sub(lambda place: as_text(values[place["name"]]), template)
    if isinstance(template, list):
        return [filled(part, values) for part in template]
    if isinstance(template, dict):
        return {name: filled(part, values) for name, part in template.items()}
    return template


def filled_url(template: str, values: Mapping[str, JsonValue]) -> str:
    """An address with every place filled; values are quoted, so that they stay in their place."""
    return _PLACE.sub(lambda place: quote(as_text(values[place["name"]]), safe=""), template)


def as_text(value: JsonValue) -> str:
    """A value inside other text: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
