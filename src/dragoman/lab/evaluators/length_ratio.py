"""How long the output is, compared with the reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators import text
from dragoman.lab.evaluators.evaluator import FAIL, PASS, Score
from dragoman.lab.evaluators.text import ComparedSettings, ComparingEvaluator
from dragoman.lab.evaluators.values import as_text
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import JsonValue
from dragoman.lab.plugins import Context
from dragoman.lab.scoring import Unit, is_written_without_spaces


class LengthRatioSettings(ComparedSettings, frozen=True):
    """What is counted, and how much is right."""

    unit: Unit | None = None
    """Left out: characters in languages without spaces between words, words in all others."""
    language: str | None = None
    """The language of the texts; left out: the target's, if it names one."""
    min_ratio: float | None = None
    max_ratio: float | None = None
    """With one of the two a turn is labelled: `pass` when the ratio lies between them."""


def check(settings: LengthRatioSettings, columns: Collection[str], context: Context) -> None:
    low, high = settings.min_ratio, settings.max_ratio
    if low is not None and high is not None and low > high:
        raise InvalidMessage(
            f"`evaluator.min_ratio` is {low:g} and `max_ratio` {high:g}: no ratio lies between.",
            details={"field": "evaluator.min_ratio"},
        )
    text.check(settings, columns, context)


def of_corpus(settings: LengthRatioSettings, sums: Sequence[float]) -> float | None:
    """All outputs together, over all references together."""
    output, reference = sums
    return output / reference if reference else None


class LengthRatioEvaluator(ComparingEvaluator[LengthRatioSettings]):
    """The output's length over the reference's: 1 when they are of equal length."""

    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        expected, length = self._length(reference), self._length(found)
        if expected == 0:
            raise EvaluatorFailure(
                "The reference is empty, and no length can be compared with it.", retryable=False
            )
        ratio = length / expected
        return Score(ratio, self._label(ratio), statistics=(float(length), float(expected)))

    def _length(self, value: JsonValue) -> int:
        settings = self.settings
        by_character = settings.unit == "character" or (
            settings.unit is None and is_written_without_spaces(settings.language)
        )
        words = as_text(value).split()
        return sum(map(len, words)) if by_character else len(words)

    def _label(self, ratio: float) -> str | None:
        low, high = self.settings.min_ratio, self.settings.max_ratio
        if low is None and high is None:
            return None
        inside = (low is None or ratio >= low) and (high is None or ratio <= high)
        return PASS if inside else FAIL
