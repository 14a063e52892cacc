"""Real servers over a real Redis: a session outlives the server its client is connected to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cluster_sessions.instances import Instances
from tests.servers import RedisProcess

from dragoman.live.protocol import TranslationResult
from dragoman.sdk import Missing, SessionClient

pytestmark = pytest.mark.redis


@pytest.fixture
def instances(own_redis: RedisProcess, tmp_path: Path) -> Iterator[Instances]:
    found = Instances(own_redis, tmp_path)
    yield found
    found.end()


async def say(session: SessionClient, texts: range, pause_seconds: float = 0.03) -> None:
    for number in texts:
        await session.say(str(number))
        await asyncio.sleep(pause_seconds)


async def hear(session: SessionClient, count: int) -> list[TranslationResult | Missing]:
    results: list[TranslationResult | Missing] = []
    async with asyncio.timeout(60):
        while len(results) < count:
            result = await session.next_result()
            assert result is not None
            results.append(result)
    return results


def test_a_client_goes_on_at_another_server_when_its_own_is_killed(instances: Instances) -> None:
    async def story() -> None:
        first, _ = await instances.start(2)
        async with instances.node(), instances.session() as session:
            before = session.session_id
            hearing = asyncio.create_task(hear(session, 40))
            await say(session, range(20))
            await instances.kill(first)
            await say(session, range(20, 40))
            results = await hearing
            assert session.session_id == before
        check_all_translated(results, 40)

    asyncio.run(story())


def test_a_rolling_restart_loses_and_repeats_nothing(instances: Instances) -> None:
    async def story() -> None:
        first, second = await instances.start(2)
        async with instances.node(), instances.session() as session:
            before = session.session_id
            hearing = asyncio.create_task(hear(session, 120))
            speaking = asyncio.create_task(say(session, range(120), 0.1))
            await asyncio.sleep(1)
            await instances.stop(first)
            await instances.start()
            await instances.stop(second)
            await speaking
            results = await hearing
            assert session.session_id == before
        check_all_translated(results, 120)

    asyncio.run(story())


def test_a_redis_that_comes_back_empty_takes_no_session_with_it(
    instances: Instances, own_redis: RedisProcess
) -> None:
    async def story() -> None:
        await instances.start(2)
        async with instances.node(), instances.session() as session:
            before = session.session_id
            hearing = asyncio.create_task(hear(session, 60))
            await say(session, range(20))
            await asyncio.to_thread(own_redis.restart_empty)
            await say(session, range(20, 60), 0.1)
            results = await hearing
            assert session.session_id == before
            assert [result.utterance_index for result in results] == list(range(60))
            # What came while Redis was away may have been refused; what came after is done.
            late = results[50:]
            assert all(isinstance(result, TranslationResult) for result in late), late

    asyncio.run(story())


def check_all_translated(results: list[TranslationResult | Missing], count: int) -> None:
    """Every utterance has its own result, once and in order."""
    assert [result.utterance_index for result in results] == list(range(count))
    missing = [result for result in results if isinstance(result, Missing)]
    assert not missing, missing
    texts = [result.text_translated for result in results if isinstance(result, TranslationResult)]
    assert texts == [f"[{number}]" for number in range(count)]
