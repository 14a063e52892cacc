"""Filters over results: trees of conditions, checked before any database sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from dragoman.errors import InvalidFilter
from dragoman.lab.model import JsonValue

MAX_DEPTH = 50

SCORE = "score."
"""What the fields of scores begin with; the evaluator's name follows."""


class Op(StrEnum):
    """How a field is compared with a value."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    IN = "in"
    NOT_IN = "not_in"
    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    MATCHES = "matches"
    IS_NULL = "is_null"
    NOT_NULL = "not_null"


_WITHOUT_VALUE = frozenset({Op.IS_NULL, Op.NOT_NULL})
_LISTS = frozenset({Op.IN, Op.NOT_IN})
_SAME = frozenset({Op.EQUAL, Op.NOT_EQUAL}) | _LISTS | _WITHOUT_VALUE
_ORDERED = _SAME | {Op.LESS, Op.AT_MOST, Op.MORE, Op.AT_LEAST}


class Condition(msgspec.Struct, frozen=True):
    """One field compared with a value; a missing value matches only `is_null`."""

    field: str
    op: Op
    value: JsonValue = None


class AllOf(msgspec.Struct, frozen=True):
    """Every one of these holds."""

    parts: tuple[Filter, ...]


class OneOf(msgspec.Struct, frozen=True):
    """At least one of these holds."""

    parts: tuple[Filter, ...]


class Not(msgspec.Struct, frozen=True):
    """This does not hold."""

    part: Filter


Filter = Condition | AllOf | OneOf | Not

EVERYTHING = AllOf(())
"""The filter that every row passes."""


def parse_filter(tree: Mapping[str, JsonValue] | None) -> Filter:
    """The filter that a caller wrote; `InvalidFilter` names what does not fit."""
    return EVERYTHING if tree is None else _parse(tree, 1)


def _parse(tree: JsonValue | Mapping[str, JsonValue], depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidFilter(f"The filter is nested deeper than {MAX_DEPTH} levels.")
    if not isinstance(tree, Mapping):
        raise InvalidFilter("A filter is an object: a condition, or `and`, `or` or `not`.")
    if "field" in tree:
        return _condition(tree)
    if len(tree) != 1 or (word := next(iter(tree))) not in _COMBINED:
        raise InvalidFilter(
            f"A filter has one of `and`, `or`, `not`, or a `field`; this has {sorted(tree)}."
        )
    return _COMBINED[word](tree[word], depth + 1)


def _parts(given: JsonValue, depth: int) -> tuple[Filter, ...]:
    if not isinstance(given, list):
        raise InvalidFilter("`and` and `or` take a list of filters.")
    return tuple(_parse(part, depth) for part in given)


_COMBINED: Mapping[str, Callable[[JsonValue, int], Filter]] = {
    "and": lambda given, depth: AllOf(_parts(given, depth)),
    "or": lambda given, depth: OneOf(_parts(given, depth)),
    "not": lambda given, depth: Not(_parse(given, depth)),
}


def _condition(tree: Mapping[str, JsonValue]) -> Condition:
    unknown = sorted(set(tree) - {"field", "op", "value"})
    if unknown:
        raise InvalidFilter(f"A condition has field, op and value; {unknown[0]!r} means nothing.")
    field = tree["field"]
    known = _kind(field)
    try:
        op = Op(str(tree.get("op", "")))
    except ValueError:
        raise InvalidFilter(
            f"The operator {tree.get('op')!r} is not known; known are {', '.join(Op)}."
        ) from None
    allowed, value_type, name = known
    if op not in allowed:
        raise InvalidFilter(
            f"{field} cannot be compared with `{op}`; use one of {', '.join(sorted(allowed))}."
        )
    return Condition(str(field), op, _checked(tree, op, value_type, name))


def _kind(field: JsonValue) -> tuple[frozenset[Op], Any, str]:
    """What the field may be compared by and with."""
    if field in ("status", "error_code"):
        return _SAME, str, "text"
    if isinstance(field, str) and field.startswith(SCORE) and len(field) > len(SCORE):
        return _ORDERED, float, "a number"
    raise InvalidFilter(
        f"Results cannot be filtered by {field!r}; use status, error_code or score.NAME."
    )


def _checked(tree: Mapping[str, JsonValue], op: Op, value_type: Any, name: str) -> JsonValue:
    if op in _WITHOUT_VALUE:
        if "value" in tree:
            raise InvalidFilter(f"`{op}` takes no value.")
        return None
    if op in _LISTS:
        value_type, name = list[value_type], f"a list; each of its values must be {name}"
    try:
        checked: JsonValue = msgspec.convert(tree.get("value"), value_type)
    except msgspec.ValidationError:
        raise InvalidFilter(f"The value for {tree['field']} must be {name}.") from None
    return checked
