"""Listeners reach a session through any instance, and follow it when it moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cluster_sessions.instances import Instances
from tests.servers import RedisProcess
from websockets.asyncio.client import connect

from dragoman.sdk import Missing, TranslationResult, listen

pytestmark = pytest.mark.redis


@pytest.fixture
def instances(own_redis: RedisProcess, tmp_path: Path) -> Iterator[Instances]:
    found = Instances(own_redis, tmp_path)
    yield found
    found.end()


def test_a_listener_at_another_instance_is_sent_to_the_one_that_has_the_session(
    instances: Instances,
) -> None:
    async def story() -> None:
        first, second = await instances.start(2)
        async with instances.node(), instances.session() as session:
            other = second.url.replace("http", "ws")
            session_id = str(session.session_id)
            async with connect(f"{other}/ws/listen/{session_id}") as socket:
                told = json.loads(await socket.recv())
            assert told["code"] == "SESSION_ELSEWHERE"
            assert told["details"]["url"] == first.url
            heard: list[TranslationResult | Missing] = []

            async def follow() -> None:
                async for result in listen(second.url, session_id):
                    heard.append(result)

            following = asyncio.create_task(follow())
            said = 0
            async with asyncio.timeout(60):
                # It listens when the first result arrives, and misses none from then on.
                while not heard:
                    await session.say(str(said))
                    said += 1
                    await asyncio.sleep(0.1)
                for _ in range(5):
                    await session.say(str(said))
                    said += 1
                await session.close()
                await following
        texts = [one.text_translated for one in heard if isinstance(one, TranslationResult)]
        assert len(texts) > 5
        assert texts == [f"[{number}]" for number in range(said - len(texts), said)]

    asyncio.run(story())


def test_a_listener_follows_a_session_that_goes_on_at_another_instance(
    instances: Instances,
) -> None:
    async def story() -> None:
        first, second = await instances.start(2)
        async with instances.node(), instances.session() as session:
            heard: list[TranslationResult | Missing] = []

            async def follow() -> None:
                async for result in listen(second.url, str(session.session_id)):
                    heard.append(result)

            following = asyncio.create_task(follow())
            async with asyncio.timeout(120):
                # It listens when the first result arrives.
                said = 0
                while not heard:
                    await session.say(f"before {said}")
                    said += 1
                    await asyncio.sleep(0.1)
                await instances.stop(first)
                while not any(
                    isinstance(one, TranslationResult) and "after" in (one.text_translated or "")
                    for one in heard
                ):
                    await session.say("after")
                    await asyncio.sleep(0.1)
                await session.close()
                await following
        seqs = [one.delivery_seq for one in heard if isinstance(one, TranslationResult)]
        assert seqs == sorted(set(seqs)), "each once, and in order"

    asyncio.run(story())
