"""A few items carried out as a run would, with nothing stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from dragoman.clock import Clock
from dragoman.lab.estimates.figures import (
    TARGET,
    Estimate,
    MeasuredItem,
    Used,
    estimate_of,
    part_of,
)
from dragoman.lab.evaluators import CallsModels, Score
from dragoman.lab.failures import Failure
from dragoman.lab.model import ContentId, Item, ResultRow, RunId, ScoreCell
from dragoman.lab.targets import Output
from dragoman.lab.worker import Bench, ItemOutcome, OpenBench, Reusable, TurnOutcome, carry_out

NO_RUN = RunId("")
"""The run of rows that were only tried."""


class Rehearsal(msgspec.Struct, frozen=True):
    """What a few items came to, and what the whole run will take."""

    estimate: Estimate
    rows: tuple[ResultRow, ...]
    """The items that were tried, as results show them; `run_id` is empty."""


class _Notes:
    """The journal of an item that is only tried: it counts, and stores nothing."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.tokens: dict[str, int] = {}
        self.cost: dict[str, float] = {}
        self.parts: dict[str, None] = {TARGET: None}

    async def target_done(self, turn_no: int, result: Output | Failure) -> None:
        # An output without a latency was not asked for: it was recorded.
        if isinstance(result, Failure) or result.latency_ms is not None:
            self.calls[TARGET] += 1
        self._add(TARGET, result)

    async def evaluator_done(self, turn_no: int, name: str, result: Score | Failure) -> None:
        self._add(part_of(name), result)

    async def try_over(self, outcome: ItemOutcome, *, last: bool) -> None:
        pass

    def used(self) -> dict[str, Used]:
        return {
            part: Used(self.calls[part], self.tokens.get(part), self.cost.get(part))
            for part in self.parts
        }

    def _add(self, part: str, result: Output | Score | Failure) -> None:
        self.parts[part] = None
        if result.tokens is not None:
            self.tokens[part] = self.tokens.get(part, 0) + result.tokens
        if result.cost is not None:
            self.cost[part] = self.cost.get(part, 0.0) + result.cost


async def rehearse(
    items: Sequence[Item],
    open_bench: Callable[[], OpenBench],
    *,
    total_items: int,
    total_turns: int,
    repetitions: int,
    unpriced: Mapping[str, str],
    clock: Clock,
) -> Rehearsal:
    """Try the items, each once and on a bench of its own, and reckon what all of them take.

    A bench of its own tells which calls were made for which item, though they go on side by side.
    The first goes alone: libraries are loaded and processes started for it. Where evaluators
    compute in processes all go alone, or a second process would be started for another item.
    """
    async with AsyncExitStack() as stack:
        benches = []
        for _ in items:
            benches.append(open_bench())
            stack.push_async_callback(benches[-1].close)
        limits = benches[0].bench.limits
        computes = any(one.cpu_bound for one in benches[0].bench.evaluators)
        most = 1 if computes else min(limits.concurrency, limits.evaluator_concurrency or 10**9)
        at_once = asyncio.Semaphore(most)

        async def tried(item: Item, bench: Bench) -> tuple[MeasuredItem, tuple[ResultRow, ...]]:
            async with at_once:
                return await _try(item, bench, clock)

        measured, rows = await tried(items[0], benches[0].bench)
        first = (msgspec.structs.replace(measured, is_first=True), rows)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(tried(item, opened.bench))
                for item, opened in zip(items[1:], benches[1:], strict=True)
            ]
    found = [first, *(task.result() for task in tasks)]
    return Rehearsal(
        estimate_of(
            [measured for measured, _ in found],
            items=total_items,
            turns=total_turns,
            repetitions=repetitions,
            concurrency=limits.concurrency,
            unpriced=unpriced,
        ),
        tuple(row for _, rows in found for row in rows),
    )


async def _try(
    item: Item, bench: Bench, clock: Clock
) -> tuple[MeasuredItem, tuple[ResultRow, ...]]:
    notes = _Notes()
    began = clock.monotonic()
    outcome = await carry_out(item, Reusable(), notes, bench)
    seconds = clock.monotonic() - began
    for evaluator in bench.evaluators:
        if isinstance(evaluator, CallsModels):
            notes.calls[part_of(evaluator.name)] += evaluator.calls
    measured = MeasuredItem(seconds, notes.used(), failed=outcome.error is not None)
    rows = [_row(item, number, turn) for number, turn in enumerate(outcome.turns)]
    return measured, tuple(rows)


def _row(item: Item, turn_no: int, turn: TurnOutcome) -> ResultRow:
    output, error = turn.output, turn.error
    return ResultRow(
        item_id=ContentId(item.shown_id),
        turn=turn_no,
        run_id=NO_RUN,
        status=turn.status,
        input=item.turns[turn_no],
        output={} if output is None else output.columns,
        scores={name: _cell(said) for name, said in turn.scores.items()},
        latency_ms=None if output is None else output.latency_ms,
        tokens=None if output is None else output.tokens,
        cost=None if output is None else output.cost,
        error_code=None if error is None else error.code,
        error_message=None if error is None else error.message,
        first_token_ms=None if output is None else output.first_token_ms,
    )


def _cell(said: Score | Failure) -> ScoreCell:
    if isinstance(said, Failure):
        return ScoreCell(error_code=said.code, error_message=said.message)
    return ScoreCell(said.score, said.label, said.reason)
