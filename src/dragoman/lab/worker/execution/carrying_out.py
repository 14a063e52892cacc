"""How one item is carried out: its turns in order, each through the target and the evaluators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec

from dragoman.errors import DragomanError, ItemTimeout
from dragoman.lab.evaluators import CompositeEvaluator, OpenedEvaluator, Score
from dragoman.lab.failures import (
    CalledTooOften,
    EvaluatorFailure,
    Failure,
    TargetError,
    failure_of,
    shortened,
)
from dragoman.lab.model import Item, RunId, Turn
from dragoman.lab.targets import (
    Output,
    PastTurn,
    TargetCall,
    calling,
    checked_json,
    usage_problem,
)
from dragoman.lab.worker.execution.allowance import Allowance
from dragoman.lab.worker.execution.backoff import backoff_seconds
from dragoman.lab.worker.execution.bench import Bench
from dragoman.lab.worker.execution.journal import Journal
from dragoman.lab.worker.execution.limiter import Limiter
from dragoman.lab.worker.execution.outcomes import ItemOutcome, Reusable, TurnOutcome

T = TypeVar("T")


async def carry_out(
    item: Item,
    past: Reusable,
    journal: Journal,
    bench: Bench,
    repetition: int = 0,
    run_id: RunId | None = None,
    allowance: Allowance | None = None,
) -> ItemOutcome:
    """Carry a repetition of an item out, and return its last try. A rehearsal has no run.

    What is in `past`, or went well in an earlier try, is not called again. Each result is in the
    journal before the next call is made. A failure is a part of the outcome; what is raised is
    `Revoked`, or the journal's own trouble. When cancelled, it stops at once. `allowance` is the
    item's time, for a caller that wants to look at it.
    """
    if allowance is None:
        allowance = Allowance(bench.limits.item_timeout_seconds, bench.clock)
    return await _Item(item, past, journal, bench, repetition, run_id, allowance).carry_out()


class _Item:
    """The item being carried out."""

    def __init__(
        self,
        item: Item,
        past: Reusable,
        journal: Journal,
        bench: Bench,
        repetition: int,
        run_id: RunId | None,
        allowance: Allowance,
    ) -> None:
        self._repetition = repetition
        self._key = None if run_id is None else f"{run_id}/{item.item_id}/{repetition}"
        self._turns = [bench.mapped(turn) for turn in item.turns]
        self._journal = journal
        self._bench = bench
        self._allowance = allowance
        self._outputs = dict(past.outputs)
        self._scores = [dict(past.scores_of(turn_no)) for turn_no in range(len(self._turns))]
        self._failures = past.failures
        self._first_try = past.first_try

    async def carry_out(self) -> ItemOutcome:
        for try_no in count(self._first_try):
            outcome = ItemOutcome(try_no, await self._try())
            last = (
                not outcome.retryable
                or try_no > self._bench.limits.retries
                or self._allowance.used_up
            )
            await self._journal.try_over(outcome, last=last)
            if last:
                break
            await asyncio.sleep(backoff_seconds(try_no, self._bench.random))
        return outcome

    async def _try(self) -> tuple[TurnOutcome, ...]:
        """Go through the turns once; those after one without an output have no history to go on."""
        outcomes: list[TurnOutcome] = []
        history: list[PastTurn] = []
        for turn_no, turn in enumerate(self._turns):
            output = await self._output(turn_no, turn, history)
            if isinstance(output, Failure):
                outcomes.append(TurnOutcome(None, output, {}))
                break
            outcomes.append(TurnOutcome(output, None, await self._judged(turn_no, turn, output)))
            history.append(PastTurn(turn, output))
        for _ in range(len(outcomes), len(self._turns)):
            outcomes.append(TurnOutcome(None, _not_reached(outcomes), {}))
        return tuple(outcomes)

    async def _output(self, turn_no: int, turn: Turn, history: list[PastTurn]) -> Output | Failure:
        if turn_no in self._outputs:
            return self._outputs[turn_no]
        if turn_no in self._failures:
            return self._failures[turn_no]
        bench, limiter = self._bench, self._bench.target_limiter
        call = TargetCall(None if self._key is None else f"{self._key}/{turn_no}", self._allowance)

        async def called() -> Output:
            with calling(call):
                return await bench.call_target(turn, tuple(history), self._repetition)

        result = await self._result(limiter, called, TargetError)
        if isinstance(result, Output):
            result = _storable(result)
        await self._journal.target_done(turn_no, result)
        if isinstance(result, Output):
            self._outputs[turn_no] = result
        return result

    async def _judged(self, turn_no: int, turn: Turn, output: Output) -> dict[str, Score | Failure]:
        """What each evaluator says, in the order in which the experiment names them."""
        found: dict[str, Score | Failure] = dict(self._scores[turn_no])
        missing = [e for e in self._bench.evaluators if e.name not in found]
        asked = [e for e in missing if not isinstance(e, CompositeEvaluator)]
        said = await _all([self._judge(turn_no, e, turn, output) for e in asked])
        found |= zip((e.name for e in asked), said, strict=True)
        for evaluator in missing:
            if isinstance(evaluator, CompositeEvaluator):
                found[evaluator.name] = await self._combine(turn_no, evaluator, found)
        return {e.name: found[e.name] for e in self._bench.evaluators}

    async def _judge(
        self, turn_no: int, evaluator: OpenedEvaluator, turn: Turn, output: Output
    ) -> Score | Failure:
        limiter = self._bench.evaluator_limiters[evaluator.name]
        result = await self._result(
            limiter, lambda: evaluator.score(turn, output), EvaluatorFailure
        )
        await self._journal.evaluator_done(turn_no, evaluator.name, result)
        if isinstance(result, Score):
            self._scores[turn_no][evaluator.name] = result
        return result

    async def _combine(
        self, turn_no: int, composite: CompositeEvaluator, said: Mapping[str, Score | Failure]
    ) -> Score | Failure:
        """What follows from the other scores; when one of them failed, this one did, too."""
        scores: dict[str, Score] = {}
        result: Score | Failure | None = None
        for name in composite.needs:
            found = said.get(name)
            if isinstance(found, Failure):
                message = shortened(f"The score {name!r} failed: {found.message}")
                result = Failure(EvaluatorFailure.code, message)
                break
            if found is not None:
                scores[name] = found
        if result is None:
            try:
                result = composite.combine(scores)
            except EvaluatorFailure as error:
                result = failure_of(error)
        await self._journal.evaluator_done(turn_no, composite.name, result)
        if isinstance(result, Score):
            self._scores[turn_no][composite.name] = result
        return result

    async def _result(
        self,
        limiter: Limiter,
        call: Callable[[], Awaitable[T]],
        own_error: type[TargetError | EvaluatorFailure],
    ) -> T | Failure:
        """What the call returns, or why it failed; rate limits are waited out inside."""
        try:
            return await limiter.run(lambda: self._allowance.run(call))
        except (own_error, CalledTooOften, ItemTimeout) as error:
            return failure_of(error)
        except DragomanError as error:
            return failure_of(own_error(error.message))
        except Exception as error:  # a kind from another package may raise anything
            return failure_of(own_error(f"{type(error).__name__}: {error}"))


def _storable(output: Output) -> Output | Failure:
    """The output as it can be stored: a kind from another package may put anything there."""
    if (problem := usage_problem(output)) is not None:
        return failure_of(TargetError(f"The target {problem}.", retryable=False))
    try:
        columns = {name: checked_json(value, name) for name, value in output.columns.items()}
    except ValueError as error:
        message = f"The target returned what cannot be stored: {error}."
        return failure_of(TargetError(message, retryable=False))
    return msgspec.structs.replace(output, columns=columns)


async def _all(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What every call returns; the first that raises ends the others."""
    if len(calls) == 1:
        return [await calls[0]]  # most experiments have one evaluator: no task is needed
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as raised:
        raise raised.exceptions[0] from None
    return [task.result() for task in tasks]


def _not_reached(outcomes: Sequence[TurnOutcome]) -> Failure:
    """Why the turns after a failed one were not called."""
    turn_no, failed = next((n, t.failure) for n, t in enumerate(outcomes, 1) if t.failure)
    assert failed is not None
    return Failure(failed.code, f"Not called, because turn {turn_no} failed: {failed.message}")
