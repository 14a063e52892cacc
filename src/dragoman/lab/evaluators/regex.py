"""Whether a regular expression is found in the output."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators.evaluator import Score, verdict
from dragoman.lab.evaluators.measured import measured, range_problem
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.evaluators.values import as_text, output_of, reference_of, whole_text
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.scoring import pattern_problem
from dragoman.lab.targets import Output

MAX_CHARACTERS = 10_000_000
MAX_SECONDS = 60


class RegexSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pattern, and where to look for it."""

    pattern: str | None = None
    """A regular expression of Python's `re`."""
    reference: str | None = None
    """The dataset's column that holds the pattern, instead of `pattern`."""
    output: str | None = None
    """The column of the output; the main one when it is left out."""
    whole: bool = False
    """The pattern has to match all of the output, not a part of it."""
    ignore_case: bool = False
    multiline: bool = False
    """`^` and `$` match at every line, and `.` matches the ends of lines."""
    timeout_seconds: float = 1.0
    """How much of the processor's time one search may take."""


def check(settings: RegexSettings, columns: Collection[str], context: Context) -> None:
    if (settings.pattern is None) == (settings.reference is None):
        raise InvalidMessage(
            "A regex evaluator takes either a `pattern` or a column `reference` that holds it.",
            details={"field": "evaluator.pattern"},
        )
    if settings.pattern is not None and (problem := pattern_problem(settings.pattern)):
        raise InvalidMessage(
            f"`evaluator.pattern` cannot be used: {problem}.",
            details={"field": "evaluator.pattern"},
        )
    if problem := range_problem(settings, "timeout_seconds", 0.001, MAX_SECONDS):
        raise InvalidMessage(problem, details={"field": "evaluator.timeout_seconds"})
    if settings.reference is not None:
        require_column(settings.reference, columns, "evaluator.reference")


class RegexEvaluator:
    """1 when the pattern is found, 0 when it is not.

    It searches in a process: a pattern that backtracks for ever holds up no other item, and is
    ended by the limit on the processor's time.
    """

    cpu_bound = True

    def __init__(
        self, name: str, settings: RegexSettings, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self._settings = settings
        self._processes = processes

    async def score(self, turn: Turn, output: Output) -> Score:
        settings = self._settings
        pattern = settings.pattern
        if settings.reference is not None:
            pattern = as_text(reference_of(turn, settings.reference))
        found = await measured(
            self._processes,
            "regex",
            whole_text(output_of(output, settings.output), "The output", MAX_CHARACTERS),
            [whole_text(pattern, "The pattern", MAX_CHARACTERS)],
            {
                "whole": settings.whole,
                "ignore_case": settings.ignore_case,
                "multiline": settings.multiline,
            },
            seconds=settings.timeout_seconds,
        )
        return verdict(found.score == 1, found.reason)

    async def close(self) -> None:
        pass
