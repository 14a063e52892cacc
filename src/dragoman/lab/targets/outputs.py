"""What a target returns, and what it is told of the turns before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import UnionType
from typing import Any

import msgspec

from dragoman.lab.model import JsonValue, Turn

MAIN_COLUMN = "output"
"""The name of a target's only, or most important, output."""

MAX_DEPTH = 100

_LARGEST_WHOLE_BITS = 14_000
"""About 4,200 digits; Python neither writes nor reads whole numbers of more than 4,300."""

MOST_USED = 10**15
"""The most tokens, or the highest cost, accepted from one answer; sums of them fit."""


class Output(msgspec.Struct, frozen=True):
    """A target's answer to a turn: named columns, one of which is the main one."""

    columns: Mapping[str, JsonValue]
    main: str = MAIN_COLUMN
    tokens: int | None = None
    cost: float | None = None
    latency_ms: float | None = None
    """None where no call was made."""
    first_token_ms: float | None = None
    """From the call to the first text, where the answer was read as it was written."""
    cached: bool = False
    """Whether it is the answer to the same question of an earlier call."""

    @property
    def answer(self) -> JsonValue:
        """The value of the main column."""
        return self.columns[self.main]


class FunctionOutput(msgspec.Struct, frozen=True):
    """What a function answers with, and what that used up: `lab.Output`.

    The value is what the function would return alone: text, a number, or an object of columns.
    """

    value: Any
    tokens: int | None = None
    cost: float | None = None


def usage_problem(output: Output) -> str | None:
    """What is wrong with the tokens or the cost that a target reports; None if nothing is."""
    tokens, cost = output.tokens, output.cost
    if tokens is not None and not (_is_number(tokens, int) and 0 <= tokens <= MOST_USED):
        return f"reports {_shown(tokens)} tokens, which is not a count from 0 to {MOST_USED:.0e}"
    if cost is not None and not (_is_number(cost, int | float) and 0 <= cost <= MOST_USED):
        return f"reports a cost of {_shown(cost)}, which is not a number from 0 to {MOST_USED:.0e}"
    return None


def _is_number(value: object, kind: type | UnionType) -> bool:
    # A target from another package may put anything there.
    return isinstance(value, kind) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > MOST_USED:
        digits = int(value.bit_length() * math.log10(2)) + 1  # perhaps too many to be written out
        return f"{'-' if value < 0 else ''}1e{digits - 1}"
    return repr(value)


class PastTurn(msgspec.Struct, frozen=True):
    """A turn of the same conversation that is over."""

    turn: Turn
    output: Output


def checked_json(value: object, where: str = "it", depth: int = 0) -> JsonValue:
    """The value as plain JSON; ValueError says what in it cannot be stored, and where."""
    # Types of other libraries that are also numbers or text, such as numpy's, become plain ones.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > _LARGEST_WHOLE_BITS:
            raise ValueError(f"{where} is {_shown(value)}, a whole number of too many digits")
        return value if type(value) is int else int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}, which JSON does not have")
        return value if type(value) is float else float.__float__(value)
    if isinstance(value, str):
        if not (value.isascii() or _is_unicode(value)):
            raise ValueError(f"{where} holds half a character (a lone surrogate)")
        return value if type(value) is str else str.__str__(value)
    if depth >= MAX_DEPTH:
        raise ValueError(f"{where} is nested too deeply")
    if isinstance(value, list | tuple):
        return [checked_json(part, f"{where}[{n}]", depth + 1) for n, part in enumerate(value)]
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(f"{where} has keys that are not text")
        return {
            _checked_name(name): checked_json(part, f"{where}.{name}", depth + 1)
            for name, part in value.items()
        }
    raise ValueError(f"{where} is a {type(value).__name__}, which is not JSON")


def _checked_name(name: str) -> str:
    if not _is_unicode(name):
        raise ValueError("a key holds half a character (a lone surrogate)")
    return name if type(name) is str else str.__str__(name)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
