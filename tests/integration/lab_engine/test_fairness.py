"""A large run beside a small one in a real lab, on a clock whose turns the target itself counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)
from tests.servers import RedisProcess, fresh_database

from dragoman.clock import SystemClock
from dragoman.ids import new_id
from dragoman.lab.model import ExperimentSpec, TargetSpec, VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.queue import open_queue
from dragoman.lab.states import ENDED
from dragoman.store import open_store

LARGE, MIDDLE, SMALL = 100_000, 1_000, 100
SMALL_CONCURRENCY = 4
LARGE_CONCURRENCY = 8
WORKERS = 2


class Turns:
    """A target whose calls all end together, when the next turn begins."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, asyncio.Future[str]]] = []

    async def answer(self, size: str) -> str:
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._calls.append((size, answered))
        return await answered

    async def count_until_small_is_done(
        self,
        expected: Callable[[int], int],
        are_handed_out: Callable[[int], Callable[[], Awaitable[bool]]],
    ) -> int:
        """Turns until every item of the small run was answered.

        `expected` says how many calls there are at once when so many items of it are left, and
        `are_handed_out` whether the scheduler has handed out as many as it may of those: turns take
        no time by themselves, and handing out does.
        """
        answered = turns = 0
        while answered < SMALL:
            await until(are_handed_out(SMALL - answered))
            await until(self.are_called(expected(SMALL - answered)))
            answered += sum(size == "small" for size, _ in self._calls)
            turns += 1
            ended, self._calls = self._calls, []
            for _, one in ended:
                one.set_result("")
        return turns

    def are_called(self, number: int) -> Callable[[], Awaitable[bool]]:
        async def reached() -> bool:
            assert len(self._calls) <= number
            return len(self._calls) == number

        return reached

    @property
    def context(self) -> Context:
        return Context(functions={"answer": self.answer})


async def start(at: Laboratory, version: VersionId, concurrency: int, weight: float = 1.0) -> str:
    spec = ExperimentSpec(
        name=new_id(Random(), "fair"),
        dataset_version_id=version,
        target=TargetSpec("python", {"function": "answer"}),
        concurrency=concurrency,
        weight=weight,
    )
    made, _ = await at.lab.experiments.submit(TENANT, spec)
    return made.experiment_id


async def turns_on_several(
    url: str, queue_url: str, large: VersionId, small: VersionId, *, places: int, large_runs: int
) -> int:
    """The same with a scheduler and workers that share the places and meet in the queue."""
    turns = Turns()
    settings = STEADY.model_copy(update={"max_item_concurrency": places})
    async with AsyncExitStack() as stack:

        async def lab(name: str, **options: Any) -> Laboratory:
            queue = open_queue(queue_url, url, name, SystemClock())
            stack.push_async_callback(queue.close)
            return await stack.enter_async_context(
                laboratory(url, settings, context=turns.context, queue=queue, **options)
            )

        for number in range(WORKERS):
            await lab(f"worker {number}", schedules=False, capacity=places // WORKERS)
        at = await lab("scheduler", works=False)
        others = [await start(at, large, LARGE_CONCURRENCY) for _ in range(large_runs)]
        beside = large_runs * LARGE_CONCURRENCY
        await until(turns.are_called(min(places, beside)))
        experiment_id = await start(at, small, SMALL_CONCURRENCY)
        counted = await turns.count_until_small_is_done(
            lambda left: min(places, beside + min(left, SMALL_CONCURRENCY)),
            lambda left: _has_handed_out(at, experiment_id, left),
        )
        for one in others:
            await at.lab.experiments.kill(TENANT, one)
            await until(_has_ended(at, one))
    return counted


async def turns_of_small(
    url: str,
    large: VersionId,
    small: VersionId,
    *,
    places: int,
    large_runs: int,
    weight: float = 1.0,
    kills: bool = True,
) -> int:
    """Turns that the small run takes beside so many large ones."""
    settings = STEADY.model_copy(update={"max_item_concurrency": places})
    turns = Turns()
    beside = large_runs * LARGE_CONCURRENCY
    async with laboratory(url, settings, context=turns.context) as at:
        others = [await start(at, large, LARGE_CONCURRENCY) for _ in range(large_runs)]
        experiment_id = await start(at, small, SMALL_CONCURRENCY, weight)
        counted = await turns.count_until_small_is_done(
            lambda left: min(places, beside + min(left, SMALL_CONCURRENCY)),
            lambda left: _has_handed_out(at, experiment_id, left),
        )
        for one in others if kills else ():
            await at.lab.experiments.kill(TENANT, one)
            await until(_has_ended(at, one))
    return counted


def _has_handed_out(at: Laboratory, experiment_id: str, left: int) -> Callable[[], Awaitable[bool]]:
    async def handed_out() -> bool:
        [(ended, busy)] = await at.rows(
            "SELECT SUM(CASE WHEN result_state <> 'init' THEN 1 ELSE 0 END),"
            " SUM(CASE WHEN result_state = 'init' AND l.status = 'processing' THEN 1 ELSE 0 END)"
            " FROM item_run_log l JOIN run_log r ON r.id = l.run_id WHERE experiment_id = :e",
            e=experiment_id,
        )
        return (ended, busy) == (SMALL - left, min(left, SMALL_CONCURRENCY))

    return handed_out


def _has_ended(at: Laboratory, experiment_id: str) -> Callable[[], Awaitable[bool]]:
    async def ended() -> bool:
        return (await at.lab.experiments.show(TENANT, experiment_id)).experiment.status in ENDED

    return ended


def test_a_small_run_is_not_starved_by_large_ones(sqlite_url: str) -> None:
    async def story() -> None:
        async with await open_store(sqlite_url) as store:
            large, _ = await add_items(store, [[{"size": "large"}]] * LARGE)
            middle, _ = await add_items(store, [[{"size": "large"}]] * MIDDLE)
            small, _ = await add_items(store, [[{"size": "small"}]] * SMALL)
        alone = await turns_of_small(sqlite_url, middle, small, places=8, large_runs=0)
        assert alone == SMALL // SMALL_CONCURRENCY
        to_spare = await turns_of_small(sqlite_url, middle, small, places=16, large_runs=1)
        assert to_spare <= 1.2 * alone
        # Of three other runs together it gets half, when it counts as much as they do.
        weighed = await turns_of_small(sqlite_url, middle, small, places=8, large_runs=3, weight=3)
        assert weighed <= 2.2 * alone
        busy = await turns_of_small(sqlite_url, large, small, places=8, large_runs=1, kills=False)
        assert busy <= 2.2 * alone

    asyncio.run(story())


@pytest.mark.parametrize(
    ("queue", "database"),
    [("redis", "mariadb"), ("redis", "postgresql"), ("database", "postgresql")],
)
def test_a_small_run_is_not_starved_where_several_workers_meet_in_a_queue(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    redis_server: RedisProcess,
    queue: str,
    database: str,
) -> None:
    """Each worker shares its own places; the scheduler hands out the items of both runs."""
    url = fresh_database(database, request, tmp_path)
    redis_server.flush()
    queue_url = redis_server.url if queue == "redis" else queue

    async def story() -> None:
        async with await open_store(url) as store:
            middle, _ = await add_items(store, [[{"size": "large"}]] * MIDDLE)
            small, _ = await add_items(store, [[{"size": "small"}]] * SMALL)
        alone = SMALL // SMALL_CONCURRENCY
        busy = await turns_on_several(url, queue_url, middle, small, places=8, large_runs=1)
        assert busy <= 2.2 * alone
        to_spare = await turns_on_several(url, queue_url, middle, small, places=16, large_runs=1)
        assert to_spare <= 1.2 * alone

    asyncio.run(story())
