"""The snippet's settings, and the score that it gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from dragoman.errors import Forbidden, InvalidMessage
from dragoman.lab.evaluators.code.sandbox import (
    CannotShutIn,
    SandboxLimits,
    SnippetFailed,
    check_snippet,
    run_snippet,
)
from dragoman.lab.evaluators.evaluator import Score, as_score
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context
from dragoman.lab.targets import MAIN_COLUMN, Output

MAX_CODE_CHARACTERS = 50_000


class CodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The snippet, and how far it may go."""

    code: str
    """Python: an expression, or statements that define ``score(...)``. Columns of the dataset and
    of the output are its variables or parameters, by name; ``output`` is the main one."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    memory_mb: Annotated[int, msgspec.Meta(ge=64, le=4096)] = 256
    higher_is_better: bool = True
    """False for a score of which less is better, as of errors; gates and comparisons go by it."""


def parts(settings: CodeSettings, context: Context) -> Mapping[str, JsonValue]:
    """A score depends on all settings but the one that says how to read it."""
    written: dict[str, JsonValue] = msgspec.to_builtins(settings)
    return {"settings": {k: v for k, v in written.items() if k != "higher_is_better"}}


def check(settings: CodeSettings, columns: Collection[str], context: Context) -> None:
    """Refuse a snippet that is no Python, and every snippet where none can be shut in."""
    if len(settings.code) > MAX_CODE_CHARACTERS:
        raise _unusable(f"it is over {MAX_CODE_CHARACTERS:,} characters long")
    try:
        check_snippet(settings.code)
    except SnippetFailed as error:
        raise _unusable(f"it is not Python ({error})") from None
    except CannotShutIn as error:
        raise _refused(error) from None


class CodeEvaluator:
    """Runs the snippet on each output, every time in a new process."""

    cpu_bound = True

    def __init__(
        self, name: str, settings: CodeSettings, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self._code = settings.code
        self._limits = SandboxLimits(settings.timeout_seconds, settings.memory_mb << 20)
        self._processes = processes

    async def score(self, turn: Turn, output: Output) -> Score:
        values = {**turn, **output.columns, MAIN_COLUMN: output.answer}
        try:
            async with self._processes.place:
                said = await run_snippet(self._code, values, self._limits)
        except CannotShutIn as error:
            raise EvaluatorFailure(_refused(error).message, retryable=False) from None
        except SnippetFailed as error:
            # The same snippet on the same values: another try would bring the same.
            raise EvaluatorFailure(f"The snippet failed: {error}.", retryable=False) from None
        try:
            return as_score(said)
        except ValueError as error:
            raise EvaluatorFailure(
                f"The snippet returned no score: {error}.", retryable=False
            ) from None

    async def close(self) -> None:
        pass


def _unusable(reason: str) -> InvalidMessage:
    return InvalidMessage(
        f"`evaluator.code` does not fit: {reason}.", details={"field": "evaluator.code"}
    )


def _refused(error: CannotShutIn) -> Forbidden:
    return Forbidden(
        f"Snippets cannot run on this machine, because they could not be shut in: {error}. They "
        "need Linux with user namespaces; use a `python` evaluator instead.",
        details={"field": "evaluator.kind"},
    )
