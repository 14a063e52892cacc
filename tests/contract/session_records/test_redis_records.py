"""What only a keeper outside the process can do: forget by itself, come back empty, stand still."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.session_records.backends import (
    KEEP_DELIVERED,
    SESSION,
    TTL_MS,
    delivery,
    held,
    job,
    new_record,
    owner,
    redis_records,
)
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.ids import SessionId
from dragoman.live.sessions import RedisRecords

pytestmark = pytest.mark.redis


def keys(server: RedisProcess) -> list[str]:
    return server.command("KEYS", "*").split()


def test_a_session_that_is_not_renewed_leaves_nothing_behind(own_redis: RedisProcess) -> None:
    async def live() -> None:
        async with redis_records(own_redis, ttl_ms=200) as records:
            await records.create(new_record())
            await records.delivered(held(), [delivery(1, 0)])
            while await records.read(SESSION) is not None:
                pass  # Its time has not come.
            assert not await records.acknowledged(held(), 1)
            while keys(own_redis):
                pass
            assert await records.count() == 0

    asyncio.run(live())


def test_every_key_has_a_time_to_live_and_renewing_extends_it(own_redis: RedisProcess) -> None:
    async def live() -> None:
        async with redis_records(own_redis) as records:
            await records.create(new_record())
            await records.opened(held(), [job(0)], next_chunk_seq=1, next_utterance_index=1)
            found = keys(own_redis)
            assert len(found) == 2
            for key in found:
                assert int(own_redis.command("PTTL", key)) > TTL_MS
                own_redis.command("PEXPIRE", key, str(TTL_MS // 2))
            assert await records.renew([held()]) == ()
            assert all(int(own_redis.command("PTTL", key)) > TTL_MS for key in found)

    asyncio.run(live())


def test_a_session_that_was_forgotten_leaves_no_key(own_redis: RedisProcess) -> None:
    async def live() -> None:
        async with redis_records(own_redis) as records:
            await records.create(new_record())
            await records.delivered(held(), [delivery(1, 0)])
            assert await records.forget(SESSION, owner())
            assert keys(own_redis) == []

    asyncio.run(live())


def test_a_record_stays_small_however_long_its_session_talks(own_redis: RedisProcess) -> None:
    async def live() -> None:
        async with redis_records(own_redis) as records:
            await records.create(new_record())
            for index in range(300):
                await records.opened(
                    held(), [job(index)], next_chunk_seq=index, next_utterance_index=index + 1
                )
                await records.delivered(held(), [delivery(index + 1, index)])
            marks, record = sorted(keys(own_redis), key=lambda key: key.rpartition(":")[2])[:2]
            assert int(own_redis.command("HLEN", record)) <= 10 + KEEP_DELIVERED
            assert int(own_redis.command("MEMORY", "USAGE", record)) < 2_000
            assert int(own_redis.command("LLEN", marks)) == 16 * KEEP_DELIVERED
            assert int(own_redis.command("MEMORY", "USAGE", marks)) < 2_000

    asyncio.run(live())


def test_a_number_that_jumps_ahead_costs_no_more_than_the_next_one(own_redis: RedisProcess) -> None:
    async def live() -> None:
        async with redis_records(own_redis) as records:
            await records.create(new_record())
            await records.delivered(held(), [delivery(1, 0)])
            far = 2**50
            await records.delivered(held(), [delivery(far, 1), delivery(far + 1, 2)])
            record = await records.read(SESSION)
            assert record is not None
            assert [entry.delivery_seq for entry in record.unacknowledged] == [1, far, far + 1]
            assert await records.acknowledged(held(), far)
            record = await records.read(SESSION)
            assert record is not None
            assert [entry.delivery_seq for entry in record.unacknowledged] == [far + 1]

    asyncio.run(live())


def test_a_redis_that_came_back_empty_gets_its_record_from_the_owner(
    own_redis: RedisProcess,
) -> None:
    async def live() -> None:
        async with redis_records(own_redis, timeout_ms=500) as records:
            await records.create(new_record())
            own_redis.restart_empty()
            await until_it_answers(records)
            assert not await records.acknowledged(held(), 1)
            assert await records.renew([held()]) == (SESSION,)
            assert await records.restore(new_record())
            assert await records.read(SESSION) == new_record()
            assert await records.acknowledged(held(), 1)
            assert await records.count() == 1

    asyncio.run(live())


def test_a_redis_that_stands_still_is_reported_and_may_be_asked_again(
    own_redis: RedisProcess,
) -> None:
    async def live() -> None:
        async with redis_records(own_redis, timeout_ms=300) as records:
            await records.create(new_record())
            own_redis.pause()
            with pytest.raises(DependencyDown):
                await records.delivered(held(), [delivery(1, 0)])
            with pytest.raises(DependencyDown):
                await records.renew([held()])
            own_redis.resume()
            await until_it_answers(records)
            assert await records.delivered(held(), [delivery(1, 0)])
            record = await records.read(SESSION)
            assert record is not None
            assert (record.unacknowledged, record.next_delivery_seq) == ((delivery(1, 0),), 2)

    asyncio.run(live())


async def until_it_answers(records: RedisRecords) -> None:
    while True:
        try:
            await records.read(SessionId("s-nobody"))
        except DependencyDown:
            continue
        return
