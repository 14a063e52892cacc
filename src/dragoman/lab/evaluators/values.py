"""The two values that an evaluator compares."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from dragoman.lab.failures import EvaluatorFailure, shortened
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
    if not isinstance(value, str):
        return _json(value)
    return value


def whole_text(value: JsonValue, holder: str, most_characters: int) -> str:
    """The text to measure; one with half a character in it, or too long a one, is refused."""
    text = as_text(value)
    if len(text) > most_characters:
        raise EvaluatorFailure(
            f"{holder} has {len(text):,} characters; this evaluator compares up to "
            f"{most_characters:,}.",
            retryable=False,
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise EvaluatorFailure(
                f"{holder} holds half a character (a lone surrogate).", retryable=False
            ) from None
    return text


def shown(value: JsonValue) -> str:
    """The value as a reason quotes it."""
    return shortened(_json(value), _SHOWN_CHARACTERS)


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two JSON values are equal; in Python alone, True equals 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[k], other[k]) for k in one)
    return one == other


def _json(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which a reason shows escaped
        return json.dumps(value)


def _column(columns: Mapping[str, JsonValue], name: str, holder: str) -> JsonValue:
    if name not in columns:
        there = ", ".join(columns) or "nothing"
        raise EvaluatorFailure(f"{holder} has no `{name}`; it has {there}.", retryable=False)
    value = columns[name]
    if value is None:
        raise EvaluatorFailure(f"{holder} has no value in `{name}`: it is null.", retryable=False)
    return value
