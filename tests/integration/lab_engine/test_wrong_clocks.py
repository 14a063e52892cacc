"""A lab whose machines have the wrong time: leases and time limits follow the database's."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.lab_engine.laboratory import (
    HELD,
    TENANT,
    add_items,
    experiment,
    laboratory,
    until,
)
from tests.integration.lab_engine.targets import noted
from tests.simulation.wrong_clocks import WrongClock

from dragoman.clock import SystemClock
from dragoman.lab.model import JsonValue
from dragoman.lab.states import RunStatus
from dragoman.store import open_store

STEPS = [pytest.param(26.0, id="forwards"), pytest.param(-26.0, id="back")]
SKEW_SECONDS = 28.0
CAPACITY = 3
"""How many items a worker has at once."""

LONGER_THAN_A_LEASE_MS = 6_000


def test_workers_with_the_wrong_time_keep_what_they_work_on(database_url: str, calls: str) -> None:
    """One worker's clock is ahead, the other's is behind; each has as many items as it may."""

    async def story() -> None:
        ahead = WrongClock(SystemClock(), SKEW_SECONDS)
        behind = WrongClock(SystemClock(), -SKEW_SECONDS)
        items = 2 * CAPACITY
        async with await open_store(database_url) as store:
            turn: dict[str, JsonValue] = {
                "turn": 0,
                "calls": calls,
                "delay_ms": LONGER_THAN_A_LEASE_MS,
                "fate": "well",
            }
            version, _ = await add_items(store, [[{"key": f"k{n}", **turn}] for n in range(items)])

            async def each_is_asked() -> bool:
                return len(noted(calls)) >= items

            async with (
                laboratory(database_url, HELD, works=False) as right,
                laboratory(database_url, HELD, schedules=False, clock=ahead, capacity=CAPACITY),
                laboratory(database_url, HELD, schedules=False, clock=behind, capacity=CAPACITY),
            ):
                spec = experiment(version, "answer", concurrency=items)
                _, started = await right.lab.experiments.submit(TENANT, spec)
                await until(each_is_asked)
                [(workers,)] = await right.rows(
                    "SELECT COUNT(DISTINCT lease_owner) FROM item_run_log"
                )
                assert workers == 2
                assert await right.ended(started.run_id) is RunStatus.SUCCESS
                assert sorted(noted(calls)) == [f"k{n}/0" for n in range(items)], "each once"

    asyncio.run(story())


@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_time_limit_does_not_follow_the_wall_clock_of_the_driver(
    database_url: str, calls: str, step_seconds: float
) -> None:
    async def story() -> None:
        clock = WrongClock(SystemClock())
        async with laboratory(database_url, clock=clock) as at:
            turn: dict[str, JsonValue] = {
                "turn": 0,
                "calls": calls,
                "delay_ms": 500,
                "fate": "well",
            }
            version, _ = await add_items(at.store, [[{"key": f"k{n}", **turn}] for n in range(8)])
            spec = experiment(version, "answer", time_limit_seconds=20)
            _, started = await at.lab.experiments.submit(TENANT, spec)

            async def is_under_way() -> bool:
                return bool(noted(calls))

            await until(is_under_way)
            clock.step(step_seconds)
            assert await at.ended(started.run_id) is RunStatus.SUCCESS
            [(began_ms, ended_ms)] = await at.rows("SELECT started_at_ms, ended_at_ms FROM run_log")
            assert 0 <= ended_ms - began_ms < 20_000

    asyncio.run(story())
