"""Gates: what an experiment must reach, as ``"exact.mean" = ">= 0.9"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from dragoman.errors import SettingsError
from dragoman.lab.results import Aggregates
from dragoman.spelling import nearest

QUANTITIES = ("count", "errors", "mean", "pass_rate")
"""The figures of a score that a gate may limit."""

MAX_FAILED = "max_failed"

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
    """One limit on a figure of a score."""

    score: str
    quantity: str
    op: str
    limit: float

    def __str__(self) -> str:
        return f"{self.score}.{self.quantity} {self.op} {self.limit:g}"

    def found_in(self, reached: Aggregates) -> float | None:
        found = getattr(reached.scores.get(self.score), self.quantity, None)
        return found if isinstance(found, int | float) else None

    def holds(self, found: float) -> bool:
        return _OPERATORS[self.op](found, self.limit)


class MaxFailed(msgspec.Struct, frozen=True):
    """The share of items that may lack a score: a mean over few items says too little."""

    limit: float = 0.0

    def __str__(self) -> str:
        return f"{MAX_FAILED} <= {self.limit:g}"

    def found_in(self, reached: Aggregates) -> float | None:
        return reached.failures.share

    def holds(self, found: float) -> bool:
        return found <= self.limit


Gate = tuple[Bar | MaxFailed, ...]
"""What must hold; empty when the file has no gate."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether a limit held, and the figure that was found."""

    bar: Bar | MaxFailed
    found: float | None
    passed: bool

    def __str__(self) -> str:
        found = "no item has this score" if self.found is None else f"it is {self.found:g}"
        return f"{self.bar}: {found}"


def read_gate(written: Mapping[str, Any] | None, scores: Collection[str], where: str) -> Gate:
    """The gate of a file whose evaluators give these scores; errors name the faulty line.

    Every gate limits the share of items without a score, even if the file does not.
    """
    if written is None:
        return ()
    limits = _flat(written)
    max_failed = _max_failed(limits.pop(MAX_FAILED, 0.0), where)
    bars = tuple(_bar(key, text, where) for key, text in limits.items())
    for bar in bars:
        if bar.score not in scores:
            meant = nearest(bar.score, scores)
            hint = (
                f"did you mean {meant!r}?"
                if meant
                else f"the file has {', '.join(scores) or 'none'}."
            )
            raise SettingsError(
                f"{where}: the gate on {bar.score!r} matches no evaluator of the file; {hint}"
            )
    return (*bars, max_failed)


def judge(gate: Gate, reached: Aggregates) -> list[Verdict]:
    """A verdict for each limit; a limit on a missing score never holds."""
    return [_verdict(bar, reached) for bar in gate]


def _verdict(bar: Bar | MaxFailed, reached: Aggregates) -> Verdict:
    found = bar.found_in(reached)
    return Verdict(bar, found, passed=found is not None and bar.holds(found))


def _flat(written: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The gate's lines. TOML reads an unquoted `exact.mean` as a table in a table."""
    flat: dict[str, Any] = {}
    for key, value in written.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _max_failed(share: Any, where: str) -> MaxFailed:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise SettingsError(
            f"{where}: the gate {MAX_FAILED} = {share!r} cannot be read; give the share of items "
            "that may lack a score, from 0 to 1."
        )
    return MaxFailed(float(share))


def _bar(key: str, text: Any, where: str) -> Bar:
    score, _, quantity = key.rpartition(".")
    if not score or quantity not in QUANTITIES:
        meant = nearest(key, [MAX_FAILED])
        hint = f" Did you mean {meant}?" if meant else ""
        raise SettingsError(
            f"{where}: there is no gate {key!r}; write {MAX_FAILED}, or NAME.QUANTITY with "
            f"one of {', '.join(QUANTITIES)}.{hint}"
        )
    limit = _LIMIT.fullmatch(text) if isinstance(text, str) else None
    if limit is None:
        raise SettingsError(
            f'{where}: the gate {key!r} = {text!r} cannot be read; write it like ">= 0.9".'
        )
    return Bar(score, quantity, limit[1], float(limit[2]))
