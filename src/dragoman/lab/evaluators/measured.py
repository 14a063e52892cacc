"""The common part of evaluators whose score a library computes, in a process of the pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.lab.evaluators.evaluator import Score, judged
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.evaluators.text import TextSettings
from dragoman.lab.evaluators.values import output_of, reference_of, whole_text
from dragoman.lab.failures import EvaluatorFailure, shortened
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.scoring import Measure, UnicodeForm
from dragoman.lab.targets import Output

MAX_CHARACTERS = 200_000
"""The longest text that is compared: edit distances grow with its square."""

MAX_REFERENCES = 100

PROCESSOR_SECONDS = 60.0
"""How long a process computes on one text before it gives up."""

FUNCTION = "dragoman.lab.scoring:measure"


class MeasuredSettings(TextSettings, frozen=True):
    """What is compared, in which language, and what counts as a difference."""

    language: str | None = None
    """The language of the texts, as a tag such as `ja`; left out: the target's, if it names one."""
    unicode_form: UnicodeForm | None = None
    """Bring both texts into this form first, so that two spellings of a character are one."""
    threshold: float | None = None
    """Label a turn `pass` when its score reaches this."""


async def measured(
    processes: FunctionProcessPool,
    kind: str,
    output: str,
    references: list[str],
    options: Mapping[str, Any],
    *,
    seconds: float = PROCESSOR_SECONDS,
    unicode_form: str | None = None,
) -> Measure:
    """The measure of a text, computed in a process; `EvaluatorFailure` when it has none."""
    asked = {
        "kind": kind,
        "output": output,
        "references": references,
        "options": options,
        "seconds": seconds,
        "unicode_form": unicode_form,
    }
    found = Measure(*await processes.call(FUNCTION, asked))
    if found.problem is not None:
        raise EvaluatorFailure(
            shortened(f"The output has no score: {found.problem}."), retryable=False
        )
    return found


class MeasuredEvaluator:
    """Compares the output with one or more references."""

    cpu_bound = True

    def __init__(
        self,
        name: str,
        kind: str,
        settings: MeasuredSettings,
        options: Mapping[str, Any],
        processes: FunctionProcessPool,
        *,
        higher_is_better: bool,
    ) -> None:
        self.name = name
        self._kind = kind
        self._settings = settings
        self._options = options
        self._processes = processes
        self._higher_is_better = higher_is_better

    async def score(self, turn: Turn, output: Output) -> Score:
        settings = self._settings
        found = await measured(
            self._processes,
            self._kind,
            whole_text(output_of(output, settings.output), "The output", MAX_CHARACTERS),
            references_of(reference_of(turn, settings.reference)),
            self._options,
            unicode_form=settings.unicode_form,
        )
        assert found.score is not None
        return Score(
            found.score,
            judged(found.score, settings.threshold, higher_is_better=self._higher_is_better),
            found.reason,
            statistics=None if found.statistics is None else tuple(found.statistics),
        )

    async def close(self) -> None:
        pass


def references_of(value: JsonValue) -> list[str]:
    """The references: a list of texts has several, anything else is one."""
    several = value if isinstance(value, list) and _are_texts(value) else [value]
    if len(several) > MAX_REFERENCES:
        raise EvaluatorFailure(
            f"There are {len(several):,} references; at most {MAX_REFERENCES} are compared.",
            retryable=False,
        )
    return [whole_text(one, "The reference", MAX_CHARACTERS) for one in several]


def _are_texts(values: list[JsonValue]) -> bool:
    return bool(values) and all(isinstance(one, str) for one in values)


def range_problem(settings: msgspec.Struct, name: str, least: float, most: float) -> str | None:
    """Why a number of the settings cannot be used; None if it can."""
    value = getattr(settings, name)
    if value is None or least <= value <= most:
        return None
    return f"`evaluator.{name}` is {value}; it must be from {least:g} to {most:g}."
