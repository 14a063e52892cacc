"""Whether the output equals the reference."""

from __future__ import annotations

from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.text import TextEvaluator, TextSettings
from dragoman.lab.evaluators.values import as_text, shown
from dragoman.lab.model import JsonValue


class Settings(TextSettings, frozen=True):
    """What is compared, and how closely."""

    ignore_space: bool = False
    """Treat any run of white space as one space, and strip both ends."""


class ExactEvaluator(TextEvaluator[Settings]):
    """1 when both are the same, 0 when they are not."""

    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        if self._same(reference, found):
            return verdict(True)
        return verdict(False, f"expected {shown(reference)}, got {shown(found)}")

    def plain(self, text: str) -> str:
        if self.settings.ignore_space:
            text = " ".join(text.split())
        return super().plain(text)

    def _same(self, expected: JsonValue, found: JsonValue) -> bool:
        if isinstance(expected, str) or isinstance(found, str):
            # A CSV file has only text: its 42 is the number 42 of a target.
            return self.plain(as_text(expected)) == self.plain(as_text(found))
        return _same_json(expected, found)


def _same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two JSON values are equal; in Python alone, True equals 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[k], other[k]) for k in one)
    return one == other
