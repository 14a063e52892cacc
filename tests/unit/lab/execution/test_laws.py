"""What holds whatever goes wrong: nothing is paid for twice, nothing runs ahead of its record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lab.execution.scene import MemoryJournal, bench, item, said

from dragoman.lab.evaluators import Score
from dragoman.lab.failures import CalledTooOften, EvaluatorFailure, Failure, TargetError
from dragoman.lab.model import Turn
from dragoman.lab.states import ItemStatus
from dragoman.lab.targets import Output, PastTurn
from dragoman.lab.worker.execution import carry_out
from dragoman.testing import run_virtual

TURNS = ("a", "b", "c")
NAMES = ("one", "two")

Step = str
"""What a call does: well, broken, hopeless, limited."""

steps = st.lists(
    st.sampled_from(["well", "well", "broken", "hopeless", "limited"]), min_size=30, max_size=30
)


class Crash(Exception):
    """The worker dies here."""


class World:
    """Outside calls, and the record of when each was made and when it was written down."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self._plan = list(plan)
        self.events: list[tuple[Any, ...]] = []

    def step(self, key: tuple[Any, ...], error: type[TargetError | EvaluatorFailure]) -> None:
        self.events.append(("call", *key))
        step = self._plan.pop(0) if self._plan else "well"
        if step == "limited":
            raise CalledTooOften(retry_after_seconds=1)
        if step != "well":
            raise error(step, retryable=step == "broken")
        self.events.append(("well", *key))


class Target:
    def __init__(self, world: World) -> None:
        self._world = world

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        await asyncio.sleep(0.5)
        text = str(turn["text"])
        assert [past.turn["text"] for past in history] == list(TURNS[: TURNS.index(text)])
        self._world.step((TURNS.index(text),), TargetError)
        return said(text)

    async def close(self) -> None:
        pass


class Judge:
    cpu_bound = False

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self._world = world

    async def score(self, turn: Turn, output: Output) -> Score:
        await asyncio.sleep(0.2)
        self._world.step((TURNS.index(str(output.answer)), self.name), EvaluatorFailure)
        return Score(1.0)

    async def close(self) -> None:
        pass


class CrashingJournal(MemoryJournal):
    """Writes to the world's record, and dies before or after an entry when told to."""

    def __init__(self, world: World, entries: list[Any], crash_at: int | None) -> None:
        super().__init__()
        self.entries = entries
        self._world = world
        self._crash_at = crash_at

    async def _enter(self, entry: tuple[Any, ...]) -> None:
        self._step()
        await super()._enter(entry)
        if entry[0] != "try":
            well = not isinstance(entry[-1], Failure)
            self._world.events.append(("kept" if well else "noted", *entry[1:-1]))
        self._step()

    def _step(self) -> None:
        if self._crash_at is not None:
            self._crash_at -= 1
            if self._crash_at < 0:
                raise Crash


def live(plan: Sequence[Step], crashes: Sequence[int], seed: int) -> tuple[World, Any]:
    """Carry an item out through as many workers as it takes."""

    async def main() -> tuple[World, Any]:
        world = World(plan)
        entries: list[Any] = []
        for crash_at in [*crashes, None]:
            journal = CrashingJournal(world, entries, crash_at)
            hands = bench(Target(world), [Judge(name, world) for name in NAMES], seed=seed)
            try:
                return world, await carry_out(item(*TURNS), journal.reusable(), journal, hands)
            except Crash:
                world.events.append(("crash",))
        raise AssertionError

    return run_virtual(main, seed=seed)


crash_points = st.lists(st.integers(0, 12), max_size=4)
seeds = st.integers(0, 2**32)


@given(steps, crash_points, seeds)
def test_what_was_kept_is_never_called_again(
    plan: list[Step], crashes: list[int], seed: int
) -> None:
    world, _ = live(plan, crashes, seed)
    kept: set[tuple[Any, ...]] = set()
    for kind, *key in world.events:
        if kind == "kept":
            kept.add(tuple(key))
        elif kind == "call":
            assert tuple(key) not in kept


@given(steps, crash_points, seeds)
def test_every_result_is_kept_before_the_next_step(
    plan: list[Step], crashes: list[int], seed: int
) -> None:
    world, _ = live(plan, crashes, seed)
    kept: set[tuple[Any, ...]] = set()
    open_: set[tuple[Any, ...]] = set()
    for kind, *rest in world.events:
        key = tuple(rest)
        if kind == "crash":
            open_.clear()
        elif kind == "well":
            open_.add(key)
        elif kind in ("kept", "noted"):
            open_.discard(key)
            if kind == "kept":
                kept.add(key)
        elif kind == "call" and len(key) == 1:
            assert not open_, "a target is called when everything before it is kept"
            assert all((turn_no,) in kept for turn_no in range(key[0]))
        elif kind == "call":
            assert (key[0],) in kept, "an output is kept before it is judged"


@given(steps, seeds)
def test_the_outcome_is_what_the_calls_said(plan: list[Step], seed: int) -> None:
    world, outcome = live(plan, [], seed)
    kept = {tuple(key) for kind, *key in world.events if kind == "kept"}
    everything = {(n,) for n in range(3)} | {(n, name) for n in range(3) for name in NAMES}
    assert (outcome.status is ItemStatus.SUCCESS) == (kept == everything)
    assert len(outcome.turns) == len(TURNS), "every turn has an end"
    assert all(turn.output is not None or turn.failure is not None for turn in outcome.turns)


@given(st.lists(st.sampled_from(["well", "limited"]), max_size=60), seeds)
def test_rate_limits_alone_never_fail_an_item(plan: list[Step], seed: int) -> None:
    _, outcome = live(plan, [], seed)
    assert outcome.status is ItemStatus.SUCCESS
    assert outcome.try_no == 1
