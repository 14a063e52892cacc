"""The common part of evaluators that compare an output with a column of the dataset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, TypeVar

import msgspec

from dragoman.lab.evaluators.evaluator import ComputesAtOnce, Score
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.evaluators.values import output_of, reference_of
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.targets import Output


class ComparedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is compared with what."""

    reference: str
    """The dataset's column to compare with."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""


class TextSettings(ComparedSettings, frozen=True):
    """What is compared, and how closely."""

    ignore_case: bool = False


ComparedT = TypeVar("ComparedT", bound=ComparedSettings)
TextT = TypeVar("TextT", bound=TextSettings)


def check(settings: ComparedSettings, columns: Collection[str], context: Context) -> None:
    require_column(settings.reference, columns, "evaluator.reference")


class ComparingEvaluator(ComputesAtOnce, ABC, Generic[ComparedT]):
    """Finds the two values; subclasses compare them."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: ComparedT, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self.settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        reference = reference_of(turn, self.settings.reference)
        return self.compare(reference, output_of(output, self.settings.output))

    async def close(self) -> None:
        pass

    @abstractmethod
    def compare(self, reference: JsonValue, found: JsonValue) -> Score:
        """The score for these two values."""


class TextEvaluator(ComparingEvaluator[TextT]):
    """Compares texts, perhaps without their case."""

    def plain(self, text: str) -> str:
        """The text without the differences to ignore."""
        return text.casefold() if self.settings.ignore_case else text
