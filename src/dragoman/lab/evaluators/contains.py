"""Whether the output holds the reference somewhere."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.processes import ProcessPool
from dragoman.lab.evaluators.values import as_text, output_of, reference_of, shown
from dragoman.lab.model import Turn
from dragoman.lab.targets import Context, Output, require_column


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is looked for, and where."""

    reference: str
    """The dataset's column with the text to look for, or a list of texts: all must be there."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""
    ignore_case: bool = False


def check(settings: Settings, columns: Collection[str], context: Context) -> None:
    require_column(settings.reference, columns, "evaluator.reference")


class ContainsEvaluator:
    """1 when everything looked for is there, 0 when something is missing."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: Settings, context: Context, processes: ProcessPool
    ) -> None:
        self.name = name
        self._settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        reference = reference_of(turn, self._settings.reference)
        wanted = reference if isinstance(reference, list) else [reference]
        text = self._plain(as_text(output_of(output, self._settings.output)))
        missing = [part for part in wanted if self._plain(as_text(part)) not in text]
        if not missing:
            return verdict(True)
        return verdict(False, f"{', '.join(map(shown, missing))} is not in the output")

    async def close(self) -> None:
        pass

    def _plain(self, text: str) -> str:
        return text.casefold() if self._settings.ignore_case else text
