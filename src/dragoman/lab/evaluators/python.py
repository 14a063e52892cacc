"""A Python function as an evaluator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dragoman.errors import DragomanError, InvalidMessage
from dragoman.lab.evaluators.evaluator import Score, as_score
from dragoman.lab.evaluators.fingerprints import source_of
from dragoman.lab.evaluators.processes import FunctionProcessPool, importable_name
from dragoman.lab.failures import CalledTooOften, EvaluatorFailure
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context, Threads, find_function
from dragoman.lab.targets import MAIN_COLUMN, Output, refusal_in

WHERE = "evaluator.function"


class PythonEvaluatorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which function, and where it runs."""

    function: str
    """``module:function``; its parameters are named after columns of the dataset and the output,
    where ``output`` is the main one."""
    cpu_bound: bool = False
    """Run it in a process of its own: for functions that compute for long."""
    higher_is_better: bool = True
    """False for a score of which less is better, as of errors; gates and comparisons go by it."""


def check(settings: PythonEvaluatorSettings, columns: Collection[str], context: Context) -> None:
    function = find_function(settings.function, context, WHERE)
    if settings.cpu_bound:
        importable_name(function.function)


def parts(settings: PythonEvaluatorSettings, context: Context) -> Mapping[str, JsonValue]:
    """The function's source: a score depends on it, and not on where the function runs."""
    function = find_function(settings.function, context, WHERE).function
    return {"settings": {"function": settings.function}, **source_of(function)}


class PythonEvaluator:
    """Calls the function with the columns of the turn and the output that it asks for."""

    def __init__(
        self,
        name: str,
        settings: PythonEvaluatorSettings,
        context: Context,
        processes: FunctionProcessPool,
    ) -> None:
        self.name = name
        self.cpu_bound = settings.cpu_bound
        self._function = find_function(settings.function, context, WHERE)
        self._importable = importable_name(self._function.function) if self.cpu_bound else ""
        self._threads = Threads(f"dragoman-evaluator-{name}")
        self._processes = processes
        self._clock = context.clock

    async def score(self, turn: Turn, output: Output) -> Score:
        values = {**turn, **output.columns, MAIN_COLUMN: output.answer}
        said = await self._said(values)
        try:
            return as_score(said)
        except ValueError as error:
            raise EvaluatorFailure(f"`{self._function.name}` returned no score: {error}.") from None

    async def close(self) -> None:
        self._threads.close()

    async def _said(self, values: Mapping[str, Any]) -> Any:
        name = self._function.name
        try:
            arguments = self._function.arguments(values)
        except InvalidMessage as error:
            raise EvaluatorFailure(error.message, retryable=False) from None
        try:
            if self.cpu_bound:
                return await self._processes.call(self._importable, arguments)
            return await self._function.call(arguments, self._threads)
        except (EvaluatorFailure, CalledTooOften):
            raise
        except DragomanError as error:
            raise EvaluatorFailure(f"`{name}`: {error.message}") from error
        except Exception as error:  # a user's function may raise anything
            if (refusal := refusal_in(error, self._clock.now_ms())) is not None:
                raise refusal from error
            raise EvaluatorFailure(f"`{name}` raised {type(error).__name__}: {error}") from error
