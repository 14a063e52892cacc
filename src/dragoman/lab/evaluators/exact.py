"""Whether the output equals the reference."""

from __future__ import annotations

from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.text import TextEvaluator, TextSettings
from dragoman.lab.evaluators.values import as_text, same_json, shown
from dragoman.lab.model import JsonValue


class ExactSettings(TextSettings, frozen=True):
    """What is compared, and how closely."""

    ignore_space: bool = False
    """Treat any run of white space as one space, and strip both ends."""


class ExactEvaluator(TextEvaluator[ExactSettings]):
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
        return same_json(expected, found)
