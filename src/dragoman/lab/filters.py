"""Filters over results: trees of conditions, checked before any database sees them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

from dragoman.errors import InvalidFilter
from dragoman.lab.model import JsonValue

MAX_DEPTH = 50
MAX_PARTS = 500
"""Maximum conditions, `and`s, `or`s and `not`s in one filter: databases have limits."""
MAX_VALUES = 10_000
"""Maximum values in all the lists of a filter together."""

SCORE = "score."
"""The prefix of score fields; the evaluator's name follows."""

REPETITION = "repetition"
"""Which of an item's repetitions a row is, from 1."""


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


_NAMES_SHOWN = 10
_WORDS = ("and", "or", "not")
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


def parse_filter(tree: JsonValue | Mapping[str, JsonValue]) -> Filter:
    """The filter that a caller wrote; raises `InvalidFilter` that names the invalid part."""
    return EVERYTHING if tree is None else _Reader().read(tree, "filter", 1)


def score_names(wanted: Filter) -> set[str]:
    """The names of the scores that a filter looks at."""
    match wanted:
        case AllOf(parts) | OneOf(parts):
            return {name for part in parts for name in score_names(part)}
        case Not(part):
            return score_names(part)
        case Condition(field):
            return {field.removeprefix(SCORE)} if field.startswith(SCORE) else set()


class _Reader:
    """Reads a tree, and counts its parts."""

    def __init__(self) -> None:
        self._parts = 0
        self._values = 0

    def read(self, tree: JsonValue | Mapping[str, JsonValue], where: str, depth: int) -> Filter:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _refused("filter", f"it has more than {MAX_PARTS} parts")
        if depth > MAX_DEPTH:
            raise _refused("filter", f"it is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(tree, Mapping):
            raise _refused(where, "a filter is an object: a condition, or `and`, `or` or `not`")
        if "field" in tree:
            return self._condition(tree, where)
        if len(tree) != 1 or (word := next(iter(tree))) not in _WORDS:
            named = sorted(islice(tree, _NAMES_SHOWN))
            raise _refused(
                where, f"it has one of `and`, `or`, `not`, or a `field`; this has {named}"
            )
        inside, given = f"{where}.{word}", tree[word]
        if word == "not":
            return Not(self.read(given, inside, depth + 1))
        if not isinstance(given, list):
            raise _refused(inside, "`and` and `or` take a list of filters")
        parts = tuple(
            self.read(part, f"{inside}[{number}]", depth + 1) for number, part in enumerate(given)
        )
        return AllOf(parts) if word == "and" else OneOf(parts)

    def _condition(self, tree: Mapping[str, JsonValue], where: str) -> Condition:
        unknown = next((name for name in tree if name not in ("field", "op", "value")), None)
        if unknown is not None:
            raise _refused(where, f"it has field, op and value; {unknown!r} is not one of them")
        field = tree["field"]
        allowed, value_type, name = _kind(field, where)
        try:
            op = Op(str(tree.get("op", "")))
        except ValueError:
            raise _refused(
                f"{where}.op", f"{tree.get('op')!r} is not known; known are {', '.join(Op)}"
            ) from None
        if op not in allowed:
            offered = ", ".join(sorted(allowed))
            raise _refused(
                f"{where}.op", f"{field} cannot be compared with `{op}`; use one of {offered}"
            )
        return Condition(str(field), op, self._value(tree, op, value_type, name, where))

    def _value(
        self, tree: Mapping[str, JsonValue], op: Op, value_type: Any, name: str, where: str
    ) -> JsonValue:
        where = f"{where}.value"
        given = tree.get("value")
        if op in _WITHOUT_VALUE:
            if given is not None:
                raise _refused(where, f"`{op}` takes no value")
            return None
        if op in _LISTS:
            value_type, name = list[value_type], f"a list; each of its values must be {name}"
            self._values += len(given) if isinstance(given, list) else 0
            if self._values > MAX_VALUES:
                raise _refused(where, f"a filter lists at most {MAX_VALUES:,} values")
        try:
            checked: JsonValue = msgspec.convert(given, value_type)
        except msgspec.ValidationError:
            raise _refused(where, f"the value for {tree['field']} must be {name}") from None
        return checked


def _kind(field: JsonValue, where: str) -> tuple[frozenset[Op], Any, str]:
    """The operators and the type of value that the field takes."""
    if field in ("status", "error_code"):
        return _SAME, str, "text"
    if field == REPETITION:
        return _ORDERED, int, "a whole number"
    if isinstance(field, str) and field.startswith(SCORE) and len(field) > len(SCORE):
        return _ORDERED, float, "a number"
    raise _refused(
        f"{where}.field",
        f"results cannot be filtered by {field!r}; use status, error_code, repetition or "
        "score.NAME",
    )


def _refused(where: str, why: str) -> InvalidFilter:
    return InvalidFilter(f"`{where}` does not fit: {why}.", details={"field": where})
