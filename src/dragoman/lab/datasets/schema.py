"""The JSON-schema of a dataset's rows: given and checked, or inferred from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from dragoman.errors import DatasetInvalid
from dragoman.lab.audio import as_stored
from dragoman.lab.datasets.schema_cost import TooCostly, check_cost
from dragoman.lab.model import JsonValue, Turn

MAX_COLUMNS = 1000
"""Maximum columns of a dataset; more mean that keys hold data."""

_SHOWN_CHARACTERS = 200
_PROBLEMS_A_ROW = 10


class RowSchema:
    """A JSON-schema that every turn has to fit; schemas it refers to by address are not fetched."""

    def __init__(self, document: Mapping[str, JsonValue]) -> None:
        self.document = document
        try:
            check_cost(document)
            self._validator = jsonschema_rs.validator_for(
                dict(document),
                retriever=_fetch_nothing,
                # This engine takes linear time in the length of the text, whatever the pattern.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except TooCostly as error:
            raise DatasetInvalid(
                f"The schema cannot be used: {error}.", details={"field": "schema"}
            ) from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise DatasetInvalid(
                f"The schema is not a valid JSON Schema: {_first_line(error)}",
                details={"field": "schema"},
            ) from None
        self._text_types = {
            name: types
            for name, types in _declared_types(document).items()
            if types - {"string"} and "string" not in types
        }

    def problems(self, turn: Turn) -> Iterator[tuple[str, str]]:
        """What does not fit: the column (empty for the row itself) and why."""
        errors = self._validator.iter_errors(dict(turn))
        for error, _ in zip(errors, range(_PROBLEMS_A_ROW), strict=False):
            column = ".".join(str(part) for part in error.instance_path)
            yield column, error.message[:_SHOWN_CHARACTERS]

    def from_text(self, turn: Turn) -> Turn:
        """The turn with its texts converted to the numbers, booleans and JSON of the schema.

        What cannot be converted stays text, for `problems` to name.
        """
        if not self._text_types:
            return turn
        return {
            name: _from_text(value, self._text_types[name])
            if name in self._text_types and isinstance(value, str)
            else value
            for name, value in turn.items()
        }


class ColumnsSeen:
    """The columns of the turns read so far, with the types of their values."""

    def __init__(self) -> None:
        self._types: dict[str, set[str]] = {}
        self._present: dict[str, int] = {}
        self._turns = 0

    def add(self, turn: Turn) -> bool:
        """Take note of a turn; False when there are more columns than a dataset has."""
        if len(turn) > MAX_COLUMNS:
            return False
        self._turns += 1
        for name, value in turn.items():
            self._types.setdefault(name, set()).add(_TYPES[type(value)])
            self._present[name] = self._present.get(name, 0) + 1
        return len(self._types) <= MAX_COLUMNS

    def schema(self, given: RowSchema | None) -> dict[str, JsonValue]:
        """The schema to keep: the one given, plus the columns that it does not mention."""
        seen: dict[str, JsonValue] = {
            name: {"type": _type_word(types)} for name, types in self._types.items()
        }
        if given is not None:
            declared = given.document.get("properties")
            properties = dict(declared) if isinstance(declared, Mapping) else {}
            return as_stored({**given.document, "properties": {**seen, **properties}})
        always: list[JsonValue] = [
            name for name, present in self._present.items() if present == self._turns
        ]
        return {"type": "object", "properties": seen, "required": always}


def columns_of(schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The columns that a stored schema names."""
    properties = schema.get("properties")
    return tuple(properties) if isinstance(properties, Mapping) else ()


_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _type_word(types: set[str]) -> JsonValue:
    """JSON-schema's `type` for these; a whole number is a number too."""
    words: list[JsonValue] = [
        word for word in sorted(types) if not (word == "integer" and "number" in types)
    ]
    return words[0] if len(words) == 1 else words


def _declared_types(document: Mapping[str, JsonValue]) -> dict[str, set[str]]:
    properties = document.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found: dict[str, set[str]] = {}
    for name, declared in properties.items():
        word = declared.get("type") if isinstance(declared, Mapping) else None
        words = word if isinstance(word, list) else [word]
        found[name] = {word for word in words if isinstance(word, str)}
    return found


def _from_text(text: str, types: set[str]) -> JsonValue:
    if not text.strip():
        return None if "null" in types else text
    try:
        value: Any = msgspec.json.decode(text.strip())
    except (msgspec.MsgspecError, RecursionError):
        return text
    kind = _TYPES[type(value)]
    fits = kind in types or (kind == "integer" and "number" in types)
    result: JsonValue = value if fits else text
    return result


def _fetch_nothing(address: str) -> NoReturn:
    raise ValueError(f"it refers to {address}; schemas elsewhere are not fetched")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:_SHOWN_CHARACTERS]
