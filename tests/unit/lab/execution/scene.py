"""An item, a target and evaluators that do as the test says, and a journal that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

from dragoman.lab.evaluators import OpenedEvaluator, Score
from dragoman.lab.failures import Failure
from dragoman.lab.model import Item, ItemId, Turn
from dragoman.lab.targets import Output, PastTurn
from dragoman.lab.worker.execution import Bench, ItemOutcome, Reusable, WorkLimits, carry_out
from dragoman.testing import VirtualClock, run_virtual

Answer = Callable[[Turn, Sequence[PastTurn]], Awaitable[Output]]


def said(text: str) -> Output:
    return Output({"output": text})


def item(*texts: str) -> Item:
    return Item(ItemId("i-1"), tuple({"text": text, "reference": text} for text in texts))


class ScriptedTarget:
    """Answers each turn with the next step of its script: an output, or an error to raise."""

    def __init__(self, **scripts: Sequence[Output | Exception | float]) -> None:
        self._scripts = {text: list(steps) for text, steps in scripts.items()}
        self.calls: list[str] = []
        self.histories: list[list[str]] = []

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        text = str(turn["text"])
        self.calls.append(text)
        self.histories.append([str(past.output.answer) for past in history])
        steps = self._scripts.get(text)
        step = steps.pop(0) if steps else said(text)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
            return said(text)
        return step

    async def close(self) -> None:
        pass


class ScriptedEvaluator:
    """Says 1 of everything, unless the script for the output has other plans."""

    cpu_bound = False

    def __init__(self, name: str = "good", **scripts: Sequence[Exception | float]) -> None:
        self.name = name
        self._scripts = {text: list(steps) for text, steps in scripts.items()}
        self.calls: list[str] = []

    async def score(self, turn: Turn, output: Output) -> Score:
        text = str(output.answer)
        self.calls.append(text)
        steps = self._scripts.get(text)
        step = steps.pop(0) if steps else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            await asyncio.sleep(step)
        return Score(1.0)

    async def close(self) -> None:
        pass


class MemoryJournal:
    """Keeps what is entered, as a database would; storing takes a moment."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.tries: list[ItemOutcome] = []
        self.ended = False
        self._seconds = seconds

    async def target_done(self, turn_no: int, result: Output | Failure) -> None:
        await self._enter(("target", turn_no, result))

    async def evaluator_done(self, turn_no: int, name: str, result: Score | Failure) -> None:
        await self._enter(("evaluator", turn_no, name, result))

    async def try_over(self, outcome: ItemOutcome, *, last: bool) -> None:
        await self._enter(("try", outcome.try_no, last))
        self.tries.append(outcome)
        self.ended = last

    async def _enter(self, entry: tuple[Any, ...]) -> None:
        await asyncio.sleep(self._seconds)
        self.entries.append(entry)

    def reusable(self) -> Reusable:
        """What a worker finds that takes the item over."""
        outputs: dict[int, Output] = {}
        scores: dict[int, dict[str, Score]] = {}
        tries = 0
        for entry in self.entries:
            if entry[0] == "target" and isinstance(entry[2], Output):
                outputs[entry[1]] = entry[2]
            elif entry[0] == "evaluator" and isinstance(entry[3], Score):
                scores.setdefault(entry[1], {})[entry[2]] = entry[3]
            elif entry[0] == "try":
                tries = entry[1]
        return Reusable(outputs, scores, first_try=tries + 1)


def bench(
    target: Any,
    evaluators: Sequence[OpenedEvaluator] = (),
    *,
    concurrency: int = 8,
    mapping: Mapping[str, str] | None = None,
    seed: int = 1,
    **limits: Any,
) -> Bench:
    clock = VirtualClock(asyncio.get_running_loop())
    return Bench(
        target,
        evaluators,
        WorkLimits(concurrency, **limits),
        clock=clock,
        random=Random(seed),
        mapping=mapping or {},
    )


class Played:
    """An item that was carried out."""

    def __init__(self, outcome: ItemOutcome, journal: MemoryJournal, seconds: float) -> None:
        self.outcome = outcome
        self.journal = journal
        self.seconds = seconds


def play(
    subject: Item,
    target: Any,
    evaluators: Sequence[OpenedEvaluator] = (),
    *,
    past: Reusable | None = None,
    seed: int = 1,
    **options: Any,
) -> Played:
    """Carry an item out on the virtual clock."""

    async def main() -> Played:
        journal = MemoryJournal()
        outcome = await carry_out(
            subject, past or Reusable(), journal, bench(target, evaluators, seed=seed, **options)
        )
        return Played(outcome, journal, asyncio.get_running_loop().time())

    return run_virtual(main, seed=seed)
