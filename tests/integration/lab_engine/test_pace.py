"""One budget of calls a target, over all workers, changed while they work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.integration.lab_engine.laboratory import (
    STEADY,
    TENANT,
    Laboratory,
    add_items,
    laboratory,
    until,
)

from dragoman.lab.failures import CalledTooOften
from dragoman.lab.model import ExperimentId, ExperimentSpec, TargetSpec, VersionId
from dragoman.lab.plugins import Context
from dragoman.lab.repository import Claim, pacing
from dragoman.lab.states import RunStatus
from dragoman.store import StoreConnection


class Gauge:
    """A target that counts how often it is called at once, by all workers of this test."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self.calls = 0
        self.may_end = asyncio.Semaphore(0)

    async def measure(self, key: str) -> str:
        """Answers when the test lets it."""
        self.calls += 1
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await self.may_end.acquire()
        finally:
            self.now -= 1
        return key

    def release(self, calls: int) -> None:
        for _ in range(calls):
            self.may_end.release()


@asynccontextmanager
async def three_workers(url: str, context: Context) -> AsyncIterator[Laboratory]:
    """A scheduler and three workers, each by itself."""
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(laboratory(url, STEADY, works=False, context=context))
        for _ in range(3):
            await stack.enter_async_context(
                laboratory(url, STEADY, schedules=False, context=context, capacity=6)
            )
        yield at


def spec_of(version: VersionId) -> ExperimentSpec:
    target = TargetSpec("python", {"function": "measure"})
    return ExperimentSpec("paced", version, target, concurrency=12)


@pytest.fixture
def items() -> list[list[dict[str, str]]]:
    return [[{"key": f"k{number}"}] for number in range(70)]


def test_all_workers_together_keep_a_limit_that_is_changed_while_they_work(
    database_url: str, items: list[list[dict[str, str]]]
) -> None:
    async def story() -> None:
        gauge = Gauge()
        context = Context(functions={"measure": gauge.measure})
        async with three_workers(database_url, context) as at:
            version, _ = await add_items(at.store, items)
            made = await at.lab.experiments.create(TENANT, spec_of(version))
            await at.lab.set_pace(TENANT, made.experiment_id, 2)
            started = await at.lab.experiments.start(TENANT, made.experiment_id)
            gauge.release(20)
            await until(lambda: _called(gauge, 22))
            assert gauge.peak == 2

            await at.lab.set_pace(TENANT, made.experiment_id, 7)
            await until(lambda: _at_work(gauge, 7))
            pace, granted = await at.lab.pace(TENANT, made.experiment_id)
            assert (pace.most, granted) == (7, 7)
            gauge.release(20)
            await until(lambda: _called(gauge, 47))
            assert gauge.peak == 7

            await at.lab.set_pace(TENANT, made.experiment_id, None)
            await until(lambda: _at_work(gauge, 12))
            gauge.release(len(items))
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            assert gauge.calls == len(items)
            await until(lambda: _no_shares(at))

    asyncio.run(story())


def test_what_one_worker_learned_of_a_limit_is_known_to_the_next(database_url: str) -> None:
    """Nearly every call is refused with a pause: the first worker learns it, the next is told."""

    async def story() -> None:
        free = asyncio.Event()

        async def measure(key: str) -> str:
            if not free.is_set():
                raise CalledTooOften("later", retry_after_seconds=0.05)
            return key

        context = Context(functions={"measure": measure})
        async with laboratory(database_url, STEADY, context=context) as at:
            version, _ = await add_items(at.store, [[{"key": f"k{n}"}] for n in range(20)])
            made, started = await at.lab.experiments.submit(TENANT, spec_of(version))
            await until(lambda: _learned(at, made.experiment_id))
            free.set()
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            pace, _ = await at.lab.pace(TENANT, made.experiment_id)
            assert pace.learned is not None
            assert pace.learned.asked_seconds == pytest.approx(0.05)

    asyncio.run(story())


async def _called(gauge: Gauge, times: int) -> bool:
    return gauge.calls >= times


async def _at_work(gauge: Gauge, calls: int) -> bool:
    return gauge.now == calls


async def _learned(at: Laboratory, experiment_id: ExperimentId) -> bool:
    pace, _ = await at.lab.pace(TENANT, experiment_id)
    return pace.learned is not None


async def _no_shares(at: Laboratory) -> bool:
    return not await at.rows("SELECT 1 FROM target_share")


def test_shares_never_add_up_to_more_than_the_budget(database_url: str) -> None:
    async def story() -> None:
        async with laboratory(database_url, works=False, schedules=False) as at:

            def work(connection: StoreConnection) -> None:
                def settle(name: str, wanted: int, running: int = 0) -> dict[str, int]:
                    claim = Claim(name, wanted, running)
                    shares, _ = pacing.settle(connection, "t", [claim], 60_000)
                    assert shares is not None
                    return shares

                pacing.set_most(connection, "t", TENANT, "a target", 6)
                assert settle("a", 10) == {"a": 6}
                assert settle("b", 10) == {"b": 0}, "nothing is free yet"
                assert settle("a", 10, running=5) == {"a": 3}, "half is the other's"
                assert settle("b", 10) == {"b": 1}, "calls in progress keep their places"
                assert settle("a", 10, running=3) == {"a": 3}
                assert settle("b", 10) == {"b": 3}
                pacing.leave(connection, ["a"])
                assert settle("b", 10) == {"b": 6}

            await at.store.write(work)

    asyncio.run(story())
