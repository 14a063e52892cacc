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
SKEWS = [pytest.param(28.0, id="ahead"), pytest.param(-28.0, id="behind")]

LONGER_THAN_A_LEASE_MS = 6_000


@pytest.mark.parametrize("ahead_seconds", SKEWS)
def test_a_worker_with_the_wrong_time_keeps_what_it_works_on(
    database_url: str, calls: str, ahead_seconds: float
) -> None:
    async def story() -> None:
        wrong = WrongClock(SystemClock(), ahead_seconds)
        async with await open_store(database_url) as store:
            turn: dict[str, JsonValue] = {
                "turn": 0,
                "calls": calls,
                "delay_ms": LONGER_THAN_A_LEASE_MS,
                "fate": "well",
            }
            version, _ = await add_items(store, [[{"key": f"k{n}", **turn}] for n in range(3)])
            async with (
                laboratory(database_url, HELD, works=False) as right,
                laboratory(database_url, HELD, schedules=False, clock=wrong),
            ):
                await right.run(experiment(version, "answer"))
                assert sorted(noted(calls)) == ["k0/0", "k1/0", "k2/0"], "each was asked once"

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
