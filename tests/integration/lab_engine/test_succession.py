"""In a worker's places one item follows another, without a word from the scheduler."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    QUICK,
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)

from dragoman.lab.model import Budget, EvaluatorSpec, ExperimentSpec, TargetSpec, VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.repository import Lease, items, journaling
from dragoman.lab.states import RunStatus
from dragoman.lab.worker import worker as worker_module
from dragoman.settings import LabSettings

ITEMS = 200
CONCURRENCY = 6

UNHURRIED = STEADY.model_copy(update={"safety_tick_ms": 3_600_000})
"""The scheduler acts when it is told something, and never by itself."""

UNWATCHED = UNHURRIED.model_copy(update={"lease_seconds": 3_600.0})
"""Nor does a worker: what lies there would lie there for an hour."""


class Calls:
    """A target that takes a few milliseconds, and knows how many calls there are at once."""

    def __init__(self, seconds: float = 0.005) -> None:
        self._seconds = seconds
        self.called: Counter[str] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def answer(self, key: str) -> str:
        self.called[key] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self._seconds)
        await self.may_end.wait()
        self.at_once -= 1
        return key

    @property
    def context(self) -> Context:
        return Context(functions={"answer": self.answer})


def spec(version: VersionId, **options: Any) -> ExperimentSpec:
    return ExperimentSpec(
        "one",
        version,
        TargetSpec("python", {"function": "answer"}),
        (EvaluatorSpec("exact", "exact", settings={"reference": "key"}),),
        concurrency=CONCURRENCY,
        **options,
    )


async def with_items(at: Laboratory, count: int = ITEMS) -> VersionId:
    version, _ = await add_items(at.store, [[{"key": f"k{number}"}] for number in range(count)])
    return version


async def logged(at: Laboratory) -> int:
    ((number,),) = await at.rows("SELECT COUNT(*) FROM item_run_log WHERE result_state <> 'init'")
    return int(number)


@pytest.mark.parametrize("workers", [1, 3])
def test_there_are_never_more_calls_at_once_than_the_experiment_allows(
    database_url: str, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """However places go from item to item, and from worker to worker after a moment."""
    monkeypatch.setattr(worker_module, "PLACE_SECONDS", 0.02)
    calls = Calls()

    async def story() -> None:
        async with AsyncExitStack() as stack:
            labs = [
                await stack.enter_async_context(
                    laboratory(database_url, _ticking(), context=calls.context, schedules=not n)
                )
                for n in range(workers)
            ]
            version = await with_items(labs[0])
            made = await labs[0].run(spec(version))

            assert calls.most_at_once <= CONCURRENCY
            assert calls.called == Counter({f"k{number}": 1 for number in range(ITEMS)})
            shown = await labs[0].lab.experiments.show(TENANT, made.experiment_id)
            assert shown.stats.success == ITEMS

    asyncio.run(story())


def _ticking() -> LabSettings:
    """Labs without a queue between them find each other's work by looking."""
    return QUICK.model_copy(update={"lease_seconds": 60.0, "safety_tick_ms": 20})


def test_items_that_end_together_are_written_together(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an item costs a database server is mostly the number of transactions."""
    calls, writes = Calls(seconds=0.0), 0
    write_entries = journaling.write_entries

    def counted(*arguments: Any) -> list[bool]:
        nonlocal writes
        writes += 1
        return write_entries(*arguments)

    monkeypatch.setattr(journaling, "write_entries", counted)

    async def story() -> None:
        async with laboratory(database_url, STEADY, context=calls.context) as at:
            version = await with_items(at, 1_000)
            await at.run(spec(version))
            assert set(calls.called.values()) == {1}
            assert len(calls.called) == 1_000
            assert writes <= 100

    asyncio.run(story())


def test_what_was_set_aside_while_places_waited_begins_in_them(database_url: str) -> None:
    calls = Calls(seconds=0.0)

    async def story() -> None:
        async with laboratory(database_url, UNWATCHED, context=calls.context) as at:
            version = await with_items(at, 1_000)
            await at.run(spec(version))
            assert set(calls.called.values()) == {1}
            assert len(calls.called) == 1_000

    asyncio.run(story())


def test_items_that_were_locked_when_they_were_to_be_taken_are_taken_soon(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, take = Calls(seconds=0.0), items.take
    locked = iter((True, True, False))

    def passed_by(*arguments: Any) -> list[Lease]:
        return [] if next(locked, False) else take(*arguments)

    monkeypatch.setattr(items, "take", passed_by)

    async def story() -> None:
        async with laboratory(database_url, UNWATCHED, context=calls.context) as at:
            await at.run(spec(await with_items(at)))
            assert calls.called == Counter({f"k{number}": 1 for number in range(ITEMS)})

    asyncio.run(story())


def test_a_worker_that_drains_hands_back_what_it_set_aside(database_url: str) -> None:
    calls = Calls()

    async def story() -> None:
        async with laboratory(database_url, UNHURRIED, context=calls.context) as at:
            version = await with_items(at)
            _, started = await at.lab.experiments.submit(TENANT, spec(version))
            await until(lambda: _some_set_aside(at))
            await at.lab.drain()

            done = len(calls.called)
            assert done < ITEMS
            assert calls.at_once == 0
            assert await logged(at) == done, "what was begun was done"
            held = await at.rows(
                "SELECT COUNT(*) FROM item_run_log"
                " WHERE result_state = 'init' AND lease_owner IS NOT NULL"
            )
            assert held == [(0,)]
            assert await _status(at, started.run_id) == RunStatus.PROCESSING.value

    asyncio.run(story())


async def _some_set_aside(at: Laboratory) -> bool:
    return bool(
        await at.rows(
            "SELECT 1 FROM item_run_log WHERE status = 'queueing' AND lease_owner IS NOT NULL"
        )
    )


async def _status(at: Laboratory, run_id: str) -> str:
    ((status,),) = await at.rows("SELECT status FROM run_log WHERE id = :run", run=run_id)
    return str(status)


def test_items_of_an_experiment_with_a_budget_are_handed_out_one_by_one(database_url: str) -> None:
    """The driver compares what is used up with the budget before it hands out each item."""
    calls = Calls()

    async def story() -> None:
        async with laboratory(database_url, STEADY, context=calls.context) as at:
            version = await with_items(at, 30)
            takes: list[int] = []
            take = at.lab._worker._combiner._take
            assert take is not None

            def noting(connection: Any, wanted: Any) -> Any:
                taken = take(connection, wanted)
                takes.append(len(taken))
                return taken

            at.lab._worker._combiner._take = noting
            await at.run(spec(version, budget=Budget(tokens=1_000_000)))
            assert set(takes) == {0}
            assert len(calls.called) == 30

    asyncio.run(story())
