"""Filters over results: trees of conditions, checked before any database sees them.

A condition with a number looks at numbers, one with text looks at text: where a column holds both,
a value of the other type counts as missing. A missing value matches only `is_null`, and neither a
condition on it nor the opposite of that condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
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

MAX_PATTERN_CHARACTERS = 1_000
MAX_PATTERN_SIZE = 1_000
"""Parts of all patterns of a filter, once their counted repetitions are written out. The time that
a text takes grows with them: few characters could keep a server busy for minutes."""
_SIZE_OF_A_SCRIPT = 50
"""What a class of Unicode counts for: it stands for many ranges of characters."""

SCORE = "score."
"""The prefix of score fields; the evaluator's name follows."""
LABEL, INPUT, OUTPUT, ANNOTATION = "label.", "input.", "output.", "annotation."
TEXT = "text"
"""Any text of the input or the output."""
MEASURES = ("latency_ms", "tokens", "cost")
"""What a target reports beside its output."""
OWN_TEXTS = ("status", "item_id", "error_code")
"""Fields of the turn itself that are text."""
NAMED = (SCORE, LABEL, INPUT, OUTPUT, ANNOTATION)
"""Prefixes of fields that the user's own names follow."""

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
_SEARCHES = frozenset({Op.CONTAINS, Op.NOT_CONTAINS, Op.MATCHES})
_SAME = frozenset({Op.EQUAL, Op.NOT_EQUAL}) | _LISTS | _WITHOUT_VALUE
_ORDERED = _SAME | {Op.LESS, Op.AT_MOST, Op.MORE, Op.AT_LEAST}

_NUMBER, _TEXT, _EITHER = "a number", "text", "a number, text, true or false"
_WHOLE_NUMBER = "a whole number"


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


class _Reader:
    """Reads a tree, and counts its parts."""

    def __init__(self) -> None:
        self._parts = 0
        self._values = 0
        self._pattern_size = 0

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
        allowed, taken = _kind(field, where)
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
        return Condition(str(field), op, self._value(tree, op, taken, where))

    def _count_pattern(self, pattern: str, where: str) -> None:
        self._pattern_size += pattern_size(pattern)
        if self._pattern_size > MAX_PATTERN_SIZE:
            raise _refused(
                where,
                "written without counts such as {1,100}, the patterns of a filter have up to "
                f"{MAX_PATTERN_SIZE:,} parts; these have {self._pattern_size:,}",
            )

    def _value(self, tree: Mapping[str, JsonValue], op: Op, taken: str, where: str) -> JsonValue:
        where = f"{where}.value"
        given = tree.get("value")
        if op in _WITHOUT_VALUE:
            if given is not None:
                raise _refused(where, f"`{op}` takes no value")
            return None
        if op in _SEARCHES:
            taken = _TEXT
        if op not in _LISTS:
            one = _checked(given, taken, op, where, f"the value for {tree['field']} must be")
            if op is Op.MATCHES:
                self._count_pattern(str(one), where)
            return one
        wrong = f"the value for {tree['field']} must be a list; each of its values must be"
        if not isinstance(given, list):
            raise _refused(where, f"{wrong} {taken}")
        self._values += len(given)
        if self._values > MAX_VALUES:
            raise _refused(where, f"a filter lists at most {MAX_VALUES:,} values")
        checked: list[JsonValue] = [_checked(one, taken, op, where, wrong) for one in given]
        if len({type(one) for one in checked}) > 1:
            raise _refused(where, "a list has numbers or text, not both")
        return checked


def fields_of(wanted: Filter) -> Iterator[Condition]:
    """Every condition of a filter."""
    match wanted:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from fields_of(part)
        case Not(part):
            yield from fields_of(part)
        case Condition():
            yield wanted


def looks_at_numbers(condition: Condition) -> bool | None:
    """Whether it compares numbers (True) or text (False); None when it asks for either."""
    if condition.field in (REPETITION, *MEASURES) or condition.field.startswith(SCORE):
        return True
    if condition.field == TEXT or condition.field in OWN_TEXTS or condition.field.startswith(LABEL):
        return False
    value = condition.value
    if condition.op in _WITHOUT_VALUE:
        return None
    if isinstance(value, list):
        # An empty list has no type; whatever is asked of it, only a missing value is left out.
        return isinstance(value[0], float) if value else None
    return isinstance(value, float)


def passes(
    wanted: Filter,
    values: Callable[[str], tuple[float | None, str | None]],
    texts: Callable[[], list[str]],
    search: Callable[[str, str], bool],
) -> bool | None:
    """Whether a row passes: True, False, or None where a missing value leaves it open.

    `values` gives a field as a number and as text, `texts` every text of the input and the output,
    `search` whether a pattern is found in a text.
    """
    match wanted:
        case AllOf(parts):
            found = [passes(part, values, texts, search) for part in parts]
            return False if False in found else None if None in found else True
        case OneOf(parts):
            found = [passes(part, values, texts, search) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = passes(part, values, texts, search)
            return None if inner is None else not inner
        case Condition(field, op, value):
            if field == TEXT:
                return _any_text(texts(), op, value, search)
            number, text = values(field)
            typed = looks_at_numbers(wanted)
            held: float | str | None
            if typed is None:
                held = number if number is not None else text
            else:
                held = number if typed else text
            if op in _WITHOUT_VALUE:
                return (held is None) is (op is Op.IS_NULL)
            return None if held is None else _holds(held, op, value, search)


def _any_text(
    texts: list[str], op: Op, value: JsonValue, search: Callable[[str, str], bool]
) -> bool | None:
    if op in _WITHOUT_VALUE:
        return (not texts) is (op is Op.IS_NULL)
    if not texts:
        return None
    if op is Op.NOT_CONTAINS:
        return not any(str(value) in text for text in texts)
    return any(_holds(text, op, value, search) for text in texts)


def _holds(held: Any, op: Op, value: Any, search: Callable[[str, str], bool]) -> bool:
    if op is Op.MATCHES:
        return search(value, held)
    return bool(_COMPARED[op](held, value))


_COMPARED: Mapping[Op, Callable[[Any, Any], bool]] = {
    Op.EQUAL: lambda held, value: held == value,
    Op.NOT_EQUAL: lambda held, value: held != value,
    Op.LESS: lambda held, value: held < value,
    Op.AT_MOST: lambda held, value: held <= value,
    Op.MORE: lambda held, value: held > value,
    Op.AT_LEAST: lambda held, value: held >= value,
    Op.IN: lambda held, value: held in value,
    Op.NOT_IN: lambda held, value: held not in value,
    Op.CONTAINS: lambda held, value: value in held,
    Op.NOT_CONTAINS: lambda held, value: value not in held,
}


def pattern_size(pattern: str) -> int:
    """How many parts a pattern has, once its counted repetitions are written out."""
    sums, lasts = [0], [0]  # of each open group: its parts so far, and those of its last piece
    place = 0
    while place < len(pattern):
        counted = _COUNTED.match(pattern, place)
        piece = _PIECE.match(pattern, place)
        if counted is not None and lasts[-1]:
            least, most = counted["least"], counted["most"]
            times = max(int(least), int(most or 0), 1)
            sums[-1] += lasts[-1] * (times - 1)
            lasts[-1] *= times
            place = counted.end()
            continue
        size = 1
        if piece is not None and piece["opens"] is not None:
            sums.append(0)
            lasts.append(0)
            size = 0
        elif pattern[place] == ")" and len(sums) > 1:
            size = sums.pop()
            lasts.pop()
            sums[-1] += size
            lasts[-1] = size
            size = 0
        elif pattern[place] in "*+?|":
            size = 0
        elif piece is not None and _SCRIPT.search(piece[0]):
            size = _SIZE_OF_A_SCRIPT
        if size:
            sums[-1] += size
            lasts[-1] = size
        place = place + 1 if piece is None else piece.end()
    return sum(sums)


_COUNTED = re.compile(r"\{(?P<least>\d{1,5})(?:,(?P<most>\d{0,5}))?\}")
_PIECE = re.compile(
    r"(?P<opens>\((?:\?(?:P?<\w*>|[a-zA-Z-]*:))?)"  # a group
    r"|\(\?[a-zA-Z-]*\)"  # flags
    r"|\\[pPx]\{[^}]*\}|\\[pP].|\\."  # an escape
    r"|\[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*\]",  # a class
    re.DOTALL,
)
_SCRIPT = re.compile(r"\\[pP]")


def _kind(field: JsonValue, where: str) -> tuple[frozenset[Op], str]:
    """The operators and the type of value that the field takes."""
    if field in OWN_TEXTS:
        return _SAME | _SEARCHES, _TEXT
    if field == REPETITION:
        return _ORDERED, _WHOLE_NUMBER
    if field in MEASURES:
        return _ORDERED, _NUMBER
    if field == TEXT:
        return _SEARCHES | _WITHOUT_VALUE, _TEXT
    prefix = isinstance(field, str) and next((p for p in NAMED if field.startswith(p)), None)
    if isinstance(field, str) and prefix and len(field) > len(prefix):
        if prefix == SCORE:
            return _ORDERED, _NUMBER
        if prefix == LABEL:
            return _SAME | _SEARCHES, _TEXT
        return _ORDERED | _SEARCHES, _EITHER
    own = (*OWN_TEXTS, REPETITION, *MEASURES)
    offered = ", ".join((*own, *(f"{prefix}NAME" for prefix in NAMED)))
    raise _refused(
        f"{where}.field",
        f"results cannot be filtered by {field!r}; use {offered} or {TEXT}",
    )


def _checked(given: JsonValue, taken: str, op: Op, where: str, wrong: str) -> float | str:
    """The value as it is compared: a number, or text."""
    if isinstance(given, bool) and taken is _EITHER:
        return "true" if given else "false"
    if isinstance(given, int | float) and not isinstance(given, bool) and taken is not _TEXT:
        try:
            number = float(given)
        except OverflowError:
            raise _refused(where, "the number is too large") from None
        if taken is not _WHOLE_NUMBER or number.is_integer():
            return number
    if isinstance(given, str) and taken not in (_NUMBER, _WHOLE_NUMBER):
        if "\x00" in given or any("\ud800" <= character <= "\udfff" for character in given):
            raise _refused(where, "it holds a NUL character or half of a surrogate pair")
        if op is Op.MATCHES and len(given) > MAX_PATTERN_CHARACTERS:
            raise _refused(where, f"a pattern has at most {MAX_PATTERN_CHARACTERS:,} characters")
        return given
    raise _refused(where, f"{wrong} {taken}")


def _refused(where: str, why: str) -> InvalidFilter:
    return InvalidFilter(f"`{where}` does not fit: {why}.", details={"field": where})
