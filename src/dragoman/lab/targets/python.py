"""A Python function as a target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.errors import DragomanError, InvalidMessage, SchemaMismatch
from dragoman.lab.failures import CalledTooOften, TargetError
from dragoman.lab.model import JsonValue, Turn
from dragoman.lab.plugins import Context, Threads, find_function, identity_of
from dragoman.lab.targets.outputs import MAIN_COLUMN, FunctionOutput, Output, PastTurn, checked_json
from dragoman.outbound import refusal_in

HISTORY = "history"
"""The parameter that receives the turns before, as a list of `PastTurn`."""

WHERE = "target.function"


class PythonTargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which function."""

    function: str
    """``module:function``; its parameters are named after columns."""


def check(settings: PythonTargetSettings, columns: Collection[str], context: Context) -> None:
    function = find_function(settings.function, context, WHERE)
    if missing := function.missing([*columns, HISTORY]):
        raise SchemaMismatch(
            f"`{function.name}` takes `{missing[0]}`, but the dataset has no such column; it has "
            f"{', '.join(columns) or 'none'}. Rename the parameter, give it a default, or map it: "
            f'mapping = {{ "{missing[0]}" = "..." }}.',
            details={"field": WHERE, "column": missing[0]},
        )


def check_cacheable(settings: PythonTargetSettings, context: Context) -> None:
    """Refuse the cache for a function whose answers cannot be told apart by its text."""
    identity_of(find_function(settings.function, context, WHERE).function)


class PythonTarget:
    """Calls the function with the turn's columns; a blocking function runs on a thread."""

    def __init__(self, settings: PythonTargetSettings, context: Context) -> None:
        self._function = find_function(settings.function, context, WHERE)
        self._wants_history = HISTORY in self._function.wanted
        self._clock = context.clock
        self._threads = Threads(f"dragoman-target-{settings.function}")

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        values: Mapping[str, Any] = turn
        if self._wants_history and HISTORY not in turn:
            values = {**turn, HISTORY: list(history)}
        began = self._clock.monotonic()
        answer = await self._answer(values)
        latency_ms = (self._clock.monotonic() - began) * 1000
        try:
            return _as_output(answer, latency_ms)
        except ValueError as error:
            raise TargetError(
                f"`{self._function.name}` returned what cannot be stored: {error}.", retryable=False
            ) from None

    async def asked(self, turn: Turn, history: Sequence[PastTurn]) -> JsonValue:
        """The arguments of the function, and what it is: together they decide the answer."""
        values: dict[str, Any] = dict(turn)
        if self._wants_history and HISTORY not in turn:
            values[HISTORY] = [[dict(past.turn), dict(past.output.columns)] for past in history]
        try:
            arguments = self._function.arguments(values)
        except InvalidMessage as error:
            raise TargetError(error.message, retryable=False) from None
        return [identity_of(self._function.function), arguments]

    async def close(self) -> None:
        self._threads.close()

    async def _answer(self, values: Mapping[str, Any]) -> Any:
        name = self._function.name
        try:
            arguments = self._function.arguments(values)
        except InvalidMessage as error:
            raise TargetError(error.message, retryable=False) from None
        try:
            return await self._function.call(arguments, self._threads)
        except (TargetError, CalledTooOften):
            raise
        except DragomanError as error:
            raise TargetError(f"`{name}`: {error.message}") from error
        except Exception as error:  # a user's function may raise anything
            if (refusal := refusal_in(error, self._clock.now_ms())) is not None:
                raise refusal from error
            raise TargetError(f"`{name}` raised {type(error).__name__}: {error}") from error


def _as_output(answer: Any, latency_ms: float) -> Output:
    """An `Output` as it is, an object as columns, anything else as the one column ``output``."""
    if isinstance(answer, FunctionOutput):
        said = _as_output(answer.value, latency_ms)
        return msgspec.structs.replace(said, tokens=answer.tokens, cost=answer.cost)
    if isinstance(answer, Output):
        if answer.main not in answer.columns:
            raise ValueError(f"an Output whose main column `{answer.main}` is missing")
        return msgspec.structs.replace(
            answer,
            columns=_columns(answer.columns),
            latency_ms=answer.latency_ms or latency_ms,
        )
    if isinstance(answer, Mapping) and answer:
        columns = _columns(answer)
        main = MAIN_COLUMN if MAIN_COLUMN in columns else next(iter(columns))
        return Output(columns, main, latency_ms=latency_ms)
    return Output({MAIN_COLUMN: checked_json(answer)}, latency_ms=latency_ms)


def _columns(answer: Mapping[Any, Any]) -> dict[str, Any]:
    columns = checked_json(answer)
    assert isinstance(columns, dict)
    return columns
