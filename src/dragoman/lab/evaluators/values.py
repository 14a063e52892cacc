"""The two values that an evaluator compares."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.lab.failures import EvaluatorError, shortened
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.targets import Output

_SHOWN_CHARACTERS = 120


def reference_of(turn: Turn, column: str) -> JsonValue:
    """The reference value of the dataset."""
    return _column(turn, column, "The turn")


def output_of(output: Output, column: str | None) -> JsonValue:
    """The output's named column, or its main one."""
    return _column(output.columns, column or output.main, "The output")


def as_text(value: JsonValue) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shown(value: JsonValue) -> str:
    """The value as a reason quotes it."""
    return shortened(msgspec.json.encode(value).decode(), _SHOWN_CHARACTERS)


def _column(columns: Mapping[str, JsonValue], name: str, holder: str) -> JsonValue:
    if name not in columns:
        there = ", ".join(columns) or "nothing"
        raise EvaluatorError(f"{holder} has no `{name}`; it has {there}.", retryable=False)
    value = columns[name]
    if value is None:
        raise EvaluatorError(f"{holder} has no value in `{name}`: it is null.", retryable=False)
    return value
