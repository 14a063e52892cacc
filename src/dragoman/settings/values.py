"""Checks one value against its key, and words what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dragoman.settings.sources import Given
from dragoman.settings.wording import as_toml

_EXPECTED: Mapping[str, str] = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""What a value must be, by the kind of pydantic error, filled from the error's own context."""


def checked(given: Given) -> Any:
    """The value in its key's type; raises ValueError with a line for each problem."""
    adapter = given.key.adapter()
    try:
        if given.strict:
            # As JSON: it has a form for lists and paths, and keeps text apart from numbers.
            return adapter.validate_json(json.dumps(given.value, default=str), strict=True)
        return adapter.validate_python(given.value)
    except ValidationError as error:
        lines = [_line(given, detail) for detail in error.errors(include_url=False)]
        raise ValueError("\n".join(lines)) from None


def _line(given: Given, detail: ErrorDetails) -> str:
    place = "".join(f"[{json.dumps(part)}]" for part in detail["loc"])
    value = detail["input"]
    template = _EXPECTED.get(detail["type"])
    reason = template.format_map(detail.get("ctx", {})) if template else f"({detail['msg']})"
    return (
        f"{given.source}: {given.key.name}{place} = {as_toml(value)} {reason}; "
        f"{_remedy(given, detail)}"
    )


def _remedy(given: Given, detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        words = detail["ctx"]["expected"].split("'")[1::2]
        close = get_close_matches(str(detail["input"]), words, n=1)
        if close:
            return f"did you mean {as_toml(close[0])}?"
    return f"the default is {given.key.leaf} = {as_toml(given.key.default)}."
