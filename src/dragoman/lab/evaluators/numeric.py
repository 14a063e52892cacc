"""Whether the output is the reference's number, or close enough to it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Literal

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import text
from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.text import ComparedSettings, ComparingEvaluator
from dragoman.lab.evaluators.values import shown, whole_text
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context

MAX_CHARACTERS = 1_000_000

# No alternative of it begins like another, so that a search takes time in proportion to the text.
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_GROUPS = re.compile(r"(?<=\d),(?=\d\d\d(?!\d))", re.ASCII)


class NumericSettings(ComparedSettings, frozen=True):
    """Which numbers are compared, and how far apart they may be."""

    absolute: float = 0.0
    """How far the output may be from the reference."""
    relative: float = 0.0
    """The same as a share of the larger of the two; what allows more counts."""
    find: Literal["only", "first", "last"] = "only"
    """Whether the output is nothing but a number, or a text whose first or last number counts."""


def check(settings: NumericSettings, columns: Collection[str], context: Context) -> None:
    for name in ("absolute", "relative"):
        value = getattr(settings, name)
        if not 0 <= value < math.inf:
            raise InvalidMessage(
                f"`evaluator.{name}` is {value:g}; it must be a number from 0 up.",
                details={"field": f"evaluator.{name}"},
            )
    text.check(settings, columns, context)


class NumericEvaluator(ComparingEvaluator[NumericSettings]):
    """1 when the numbers are close enough, 0 when they are not, or when the output has none."""

    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        for value, holder in ((reference, "The reference"), (found, "The output")):
            if isinstance(value, str):
                whole_text(value, holder, MAX_CHARACTERS)
        expected = _number(reference, "only")
        if expected is None:
            raise EvaluatorFailure(
                f"The reference is no number: {shown(reference)}.", retryable=False
            )
        number = _number(found, self.settings.find)
        if number is None:
            return verdict(False, f"the output has no number: {shown(found)}")
        settings = self.settings
        if math.isclose(
            expected, number, rel_tol=min(settings.relative, 1.0), abs_tol=settings.absolute
        ):
            return verdict(True)
        return verdict(False, f"expected {expected:g}, got {number:g}")


def _number(value: JsonValue, find: str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = _in_text(value, find) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None


def _in_text(value: str, find: str) -> float | None:
    written = _GROUPS.sub("", value.strip())
    if find == "only":
        return float(written) if _NUMBER.fullmatch(written) else None
    numbers = _NUMBER.findall(written)
    if not numbers:
        return None
    return float(numbers[0] if find == "first" else numbers[-1])
