"""Whether the output contains the reference."""

from __future__ import annotations

from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.text import TextEvaluator, TextSettings
from dragoman.lab.evaluators.values import as_text, shown
from dragoman.lab.model import JsonValue


class ContainsSettings(TextSettings, frozen=True):
    """What to look for, and where: a reference is a text, or a list that must all occur."""


class ContainsEvaluator(TextEvaluator[ContainsSettings]):
    """1 when everything looked for occurs, 0 when something is missing."""

    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        wanted = reference if isinstance(reference, list) else [reference]
        text = self.plain(as_text(found))
        missing = [part for part in wanted if self.plain(as_text(part)) not in text]
        if not missing:
            return verdict(True)
        return verdict(False, f"{', '.join(map(shown, missing))} is not in the output")
