"""Whatever is written, in whatever order and however often: every keeper says the same."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.contract.session_records.backends import (
    FIRST,
    HERE,
    KEEP_DELIVERED,
    SECOND,
    SESSION,
    THERE,
    delivery,
    held,
    job,
    new_record,
    redis_records,
)
from tests.servers import RedisProcess

from dragoman.live.sessions import MemoryRecords, SessionRecords

STEPS = 120
LIVES = 12


class Life:
    """A session's life as its owners tell it, with words that come late, twice or from the past."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._delivered = {"en": 0, "fr": 0}
        self._next_seq = 1

    async def step(self, keepers: tuple[SessionRecords, ...]) -> None:
        """Tell every keeper the same; they must answer the same and hold the same."""
        random = self._random
        record = await keepers[0].read(SESSION)
        assert record is not None
        seen = max(0, record.revision - random.choice((0, 0, 1, 5, -1)))
        holding = held(random.choice((record.owner.epoch, record.owner.epoch, 1, 2, 3)), seen)
        target = random.choice(("en", "fr"))
        match random.choice(("opened", "opened", "delivered", "delivered", "acked", "taken")):
            case "opened":
                jobs = [job(random.randrange(40), target) for _ in range(random.randrange(3))]
                chunk, upto = random.randrange(99), random.randrange(40)
                answers = [
                    await keeper.opened(
                        holding, jobs, next_chunk_seq=chunk, next_utterance_index=upto
                    )
                    for keeper in keepers
                ]
            case "delivered":
                entries = [delivery(self._next_seq, self._delivered[target], target)]
                answers = [await keeper.delivered(holding, entries) for keeper in keepers]
                if answers[0] and random.random() < 0.8:
                    self._next_seq += 1
                    self._delivered[target] += 1
            case "acked":
                upto = random.randrange(self._next_seq + 2)
                answers = [await keeper.acknowledged(holding, upto) for keeper in keepers]
            case _:
                await self._change_hands(keepers)
                answers = [True]
        assert len(set(answers)) == 1

    async def _change_hands(self, keepers: tuple[SessionRecords, ...]) -> None:
        random = self._random
        record = await keepers[0].read(SESSION)
        if record is not None and record.owner.epoch < 3:
            name = (THERE, SECOND) if record.owner.epoch == 1 else (HERE, FIRST)
            taken = [await keeper.take(SESSION, *name) for keeper in keepers]
            assert all(one == taken[0] for one in taken)
        elif record is not None and random.random() < 0.3:
            forgotten = [await keeper.forget(SESSION, record.owner) for keeper in keepers]
            restored = [await keeper.restore(record) for keeper in keepers]
            assert all(forgotten)
            assert all(restored)


@pytest.mark.redis
@pytest.mark.parametrize("seed", range(LIVES))
def test_redis_and_memory_hold_the_same_after_every_step(
    redis_server: RedisProcess, seed: int
) -> None:
    async def live() -> None:
        memory = MemoryRecords(KEEP_DELIVERED)
        life = Life(seed)
        async with redis_records(redis_server) as redis:
            await memory.create(new_record())
            await redis.create(new_record())
            for step in range(STEPS):
                await life.step((memory, redis))
                assert await redis.read(SESSION) == await memory.read(SESSION), (seed, step)
        record = await memory.read(SESSION)
        assert record is not None
        assert len(record.unacknowledged) <= 17 * KEEP_DELIVERED

    asyncio.run(live())
