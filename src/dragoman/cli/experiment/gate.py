"""Gates: what an experiment must reach, as ``"exact.mean" = ">= 0.9"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from dragoman.errors import SettingsError
from dragoman.lab.results import Aggregates

QUANTITIES = ("count", "errors", "mean", "pass_rate")
"""What of a score a gate may look at."""

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}
_LIMIT = re.compile(r"\s*(>=|<=|==|!=|>|<|=)\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*")


class Bar(msgspec.Struct, frozen=True):
    """One thing that must hold."""

    score: str
    quantity: str
    op: str
    limit: float

    def __str__(self) -> str:
        return f"{self.score}.{self.quantity} {self.op} {self.limit:g}"


Gate = tuple[Bar, ...]


class Verdict(msgspec.Struct, frozen=True):
    """Whether something held, and what was found."""

    bar: Bar
    found: float | None
    passed: bool

    def __str__(self) -> str:
        found = "nothing has such a score" if self.found is None else f"it is {self.found:g}"
        return f"{self.bar}: {found}"


def read_gate(written: Mapping[str, str], scores: Collection[str], where: str) -> Gate:
    """The gate of a file whose evaluators give these scores; what makes no sense is named."""
    gate = tuple(_bar(key, text, where) for key, text in written.items())
    for bar in gate:
        if bar.score not in scores:
            raise SettingsError(
                f"{where}: the gate on {bar.score!r} names no evaluator of the file; there is "
                f"{', '.join(scores) or 'none'}."
            )
    return gate


def judge(gate: Gate, reached: Aggregates) -> list[Verdict]:
    """What held and what did not; a score that is not there never holds."""
    return [_verdict(bar, reached) for bar in gate]


def _verdict(bar: Bar, reached: Aggregates) -> Verdict:
    aggregate = reached.scores.get(bar.score)
    found = getattr(aggregate, bar.quantity, None)
    if not isinstance(found, int | float):
        return Verdict(bar, None, passed=False)
    return Verdict(bar, found, passed=_OPERATORS[bar.op](found, bar.limit))


def _bar(key: str, text: str, where: str) -> Bar:
    score, _, quantity = key.rpartition(".")
    if not score or quantity not in QUANTITIES:
        raise SettingsError(
            f"{where}: the gate {key!r} is not known; write NAME.QUANTITY, with one of "
            f"{', '.join(QUANTITIES)}."
        )
    limit = _LIMIT.fullmatch(text)
    if limit is None:
        raise SettingsError(
            f'{where}: the gate {key!r} = {text!r} cannot be read; write it like ">= 0.9".'
        )
    return Bar(score, quantity, limit[1], float(limit[2]))
