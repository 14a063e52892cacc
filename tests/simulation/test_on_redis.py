"""The same world on a shared ledger on Redis: a real server, a real loop, the network in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.servers import RedisProcess
from tests.simulation.world import World, settings_with

from dragoman.clock import SystemClock
from dragoman.ids import new_id
from dragoman.live.protocol import Outcome
from dragoman.live.shared import RedisSharedLedger
from dragoman.testing import JobEnding, seconds

pytestmark = pytest.mark.redis

BRISK: dict[str, Any] = {
    "scheduler__job_timeout__ack_seconds": 1,
    "scheduler__job_timeout__cancel_grace_seconds": 1,
    "scheduler__node_health__reconnect_grace_seconds": 0.2,
}


def play_on(server: RedisProcess, story: Callable[[World], Awaitable[None]]) -> None:
    """Act a story out in real time."""

    async def main() -> None:
        ledger = RedisSharedLedger(
            server.url,
            Random(1),
            keep_delivered=100,
            session_ms=60_000,
            key_prefix=new_id(Random(), "test"),
            # The machine may be busy with other tests: slow is not down here.
            timeout_ms=20_000,
        )
        async with World(
            seed=1, clock=SystemClock(), settings=settings_with(**BRISK), ledger=ledger
        ) as world:
            await story(world)

    asyncio.run(main())


def test_jobs_are_done_and_every_slot_returns(redis_server: RedisProcess) -> None:
    async def story(world: World) -> None:
        nodes = [await world.node(f"n{n}", slots=2, service=seconds(0.02)) for n in range(3)]
        jobs = await asyncio.gather(*(world.submit(f"r{n}", may_wait=True) for n in range(30)))
        for job in jobs:
            await job.end()
            assert (job.outcome, len(job.ends)) == (Outcome.SUCCESS, 1)
        assert all(node.over_limit == 0 for node in nodes)
        assert await world.held() == 0

    play_on(redis_server, story)


def test_a_repeated_request_finds_its_job(redis_server: RedisProcess) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(0.05))
        first, again = await asyncio.gather(world.submit("r"), world.submit("r"))
        assert first.job_id == again.job_id
        await first.end()
        assert len(node.assigned) == 1

    play_on(redis_server, story)


def test_a_killed_node_s_jobs_go_elsewhere(redis_server: RedisProcess) -> None:
    async def story(world: World) -> None:
        dying = await world.node("dying", slots=1, answer=JobEnding.NEVER)
        job = await world.submit("r")
        await world.until(lambda: bool(dying.working))
        await world.node("other", slots=1, service=seconds(0.02))
        dying.restart()
        record = await job.end()
        assert [past.node_id for past in record.attempts] == ["dying", "other"]

    play_on(redis_server, story)


def test_a_cancelled_job_is_never_done(redis_server: RedisProcess) -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(0.02))
        jobs = [await world.submit(f"r{number}", may_wait=True) for number in range(8)]
        await asyncio.gather(*(world.cancel(job) for job in jobs))
        for job in jobs:
            await job.end()
            assert len(job.ends) == 1
            assert (job.outcome is Outcome.CANCELLED) == job.cancelled

    play_on(redis_server, story)


def test_live_work_takes_a_slot_over_from_batch_work(redis_server: RedisProcess) -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=2, answer=JobEnding.NEVER)
        batch = await world.submit("batch", batch=True)
        await world.submit("live 1")
        await world.until(lambda: len(node.working) == 2)
        node.behaviour.answer, node.behaviour.service = JobEnding.WELL, seconds(0.02)
        live = await world.submit("live 2")
        await live.end()
        assert live.outcome is Outcome.SUCCESS
        assert batch.outcome is None or batch.ends[0].preemptions == 1

    play_on(redis_server, story)
