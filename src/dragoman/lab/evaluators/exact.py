"""Whether the output is what the reference says, and nothing else."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.processes import ProcessPool
from dragoman.lab.evaluators.values import as_text, output_of, reference_of, shown
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.targets import Context, Output, require_column


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is compared, and how closely."""

    reference: str
    """The dataset's column with the right answer."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""
    ignore_case: bool = False
    ignore_space: bool = False
    """Take any run of white space for one blank, and none at either end."""


def check(settings: Settings, columns: Collection[str], context: Context) -> None:
    require_column(settings.reference, columns, "evaluator.reference")


class ExactEvaluator:
    """1 when both are the same, 0 when they are not."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: Settings, context: Context, processes: ProcessPool
    ) -> None:
        self.name = name
        self._settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        expected = reference_of(turn, self._settings.reference)
        found = output_of(output, self._settings.output)
        if self._same(expected, found):
            return verdict(True)
        return verdict(False, f"expected {shown(expected)}, got {shown(found)}")

    async def close(self) -> None:
        pass

    def _same(self, expected: JsonValue, found: JsonValue) -> bool:
        if isinstance(expected, str) or isinstance(found, str):
            # A CSV file has only text: its 42 is the number 42 of a target.
            return self._plain(as_text(expected)) == self._plain(as_text(found))
        return _same_json(expected, found)

    def _plain(self, text: str) -> str:
        if self._settings.ignore_space:
            text = " ".join(text.split())
        return text.casefold() if self._settings.ignore_case else text


def _same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two JSON values are the same; Python by itself takes true for 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[k], other[k]) for k in one)
    return one == other
