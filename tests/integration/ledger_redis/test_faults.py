"""Redis stops, forgets, fails over: nothing is oversold, refusals are typed, work goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.ledger_redis.conftest import OpenLedger
from tests.integration.ledger_redis.fleet import ask, claim, granted_or_none, held, join
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.live.ledger import (
    Adopted,
    Adoption,
    Claimed,
    Cold,
    Dropped,
    Full,
    Granted,
    Heartbeat,
    RedisLedger,
)
from dragoman.live.protocol import JobClass, RunningJob

pytestmark = pytest.mark.redis

TIMEOUT_MS = 3_000
"""Longer than a busy machine stands still."""


async def until_it_answers(ledger: RedisLedger) -> None:
    while True:
        try:
            await ledger.cell_version(0)
        except DependencyDown:
            continue
        return


def test_a_redis_that_stands_still_is_reported_in_time_and_oversells_nothing(
    own_redis: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(own_redis.url, timeout_ms=TIMEOUT_MS)
        cell, _ = await join(ledger, "n-1", 3)
        asks = [ask(cell) for _ in range(8)]
        own_redis.pause()
        async with asyncio.timeout(10 * TIMEOUT_MS / 1000):
            answers = await asyncio.gather(
                *(ledger.reserve(wanted) for wanted in asks), return_exceptions=True
            )
        assert all(isinstance(answer, DependencyDown) for answer in answers)
        own_redis.resume()
        await until_it_answers(ledger)
        first = [await ledger.reserve(wanted) for wanted in asks]
        again = [await ledger.reserve(wanted) for wanted in asks]
        assert first == again
        assert sum(isinstance(answer, Granted) for answer in first) == 3
        assert await held(ledger, cell) == {"n-1": 3}
        await ledger.close()

    asyncio.run(live())


def test_an_ask_with_unknown_outcome_holds_one_slot_however_often_it_is_asked(
    own_redis: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(own_redis.url, timeout_ms=TIMEOUT_MS, cell_size=1)
        await join(ledger, "n-1", 1)
        await join(ledger, "n-2", 1)
        wanted = ask(1, 0)
        own_redis.pause()
        with pytest.raises(DependencyDown):
            await ledger.reserve(wanted)
        own_redis.resume()
        await until_it_answers(ledger)
        answer = await ledger.reserve(wanted)
        assert isinstance(answer, Granted)
        assert await ledger.reserve(wanted) == answer
        assert sum((await held(ledger, 0) | await held(ledger, 1)).values()) == 1
        await ledger.close()

    asyncio.run(live())


def test_an_asker_that_goes_away_does_not_disturb_the_others(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        jobs = [await ledger.claim(claim(f"r-{number}")) for number in range(20)]
        for _ in range(20):
            tasks = []
            for job in jobs:
                assert isinstance(job, Claimed)
                tasks.append(asyncio.create_task(ledger.read(job.job_id)))
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            for number in range(1, len(jobs), 2):
                record = answers[number]
                assert not isinstance(record, BaseException)
                assert record is not None
                assert record.spec.request_id == f"r-{number}"
        await ledger.close()

    asyncio.run(live())


def test_scripts_that_were_flushed_are_loaded_again(
    own_redis: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(own_redis.url)
        cell, _ = await join(ledger, "n-1", 40)
        for _ in range(4):
            own_redis.command("SCRIPT", "FLUSH")
            answers = await asyncio.gather(*(ledger.reserve(ask(cell)) for _ in range(10)))
            assert all(isinstance(answer, Granted) for answer in answers)
        assert await held(ledger, cell) == {"n-1": 40}
        assert isinstance(await ledger.reserve(ask(cell)), Full)
        await ledger.close()

    asyncio.run(live())


def test_a_redis_that_came_back_empty_is_cold_until_its_nodes_report(
    own_redis: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(own_redis.url, timeout_ms=TIMEOUT_MS)
        cell, sender = await join(ledger, "n-1", 2)
        version = await ledger.cell_version(cell)
        wanted = ask(cell)
        assert isinstance(await ledger.reserve(wanted), Granted)
        own_redis.restart_empty()
        await until_it_answers(ledger)
        assert await ledger.reserve(ask(cell)) == Full(cold=(cell,))
        beat = Heartbeat(sender.node_id, sender.epoch, 45_000)
        assert await ledger.beat(cell, beat) == Cold(cell)
        assert own_redis.command("DBSIZE") == "0"

        running = RunningJob(wanted.job_id, wanted.attempt_id)
        cell, sender = await join(ledger, "n-1", 2, (running,))
        assert await ledger.cell_version(cell) != version
        adoption = Adoption(running, sender, JobClass.LIVE, True, 45_000, 30_000)
        assert await ledger.adopt(cell, adoption) == Adopted()
        assert await held(ledger, cell) == {"n-1": 1}
        await ledger.close()

    asyncio.run(live())


def test_after_a_failover_the_nodes_word_closes_the_window(
    own_redis: RedisProcess, open_ledger: OpenLedger, tmp_path: Path
) -> None:
    replica = own_redis.start_replica(tmp_path / "replica")

    async def live() -> None:
        ledger = open_ledger(own_redis.url, timeout_ms=TIMEOUT_MS)
        cell, sender = await join(ledger, "n-1", 2)
        await ledger.reserve(ask(cell))
        promoted = open_ledger(replica.url, timeout_ms=TIMEOUT_MS)
        while await promoted.read_cell(cell) != await ledger.read_cell(cell):
            pass  # The replica is a moment behind.
        with pytest.raises(DependencyDown, match="read only"):
            await promoted.reserve(ask(cell))
        # Cut off from its primary, the replica does not hear of the last grant.
        replica.command("REPLICAOF", "NO", "ONE")
        unheard = ask(cell)
        assert isinstance(await ledger.reserve(unheard), Granted)
        own_redis.kill()
        with pytest.raises(DependencyDown):
            await ledger.reserve(ask(cell))
        await ledger.close()
        assert await held(promoted, cell) == {"n-1": 1}
        running = RunningJob(unheard.job_id, unheard.attempt_id)
        heartbeat = Heartbeat(sender.node_id, sender.epoch, 45_000, (running,))
        beat = await promoted.beat(cell, heartbeat)
        assert getattr(beat, "unknown", None) == (running,)
        adoption = Adoption(running, sender, JobClass.LIVE, True, 45_000, 30_000)
        assert await promoted.adopt(cell, adoption) == Adopted()
        assert isinstance(await promoted.reserve(ask(cell)), Full)
        await promoted.close()

    try:
        asyncio.run(live())
    finally:
        replica.stop()


def test_slots_that_were_given_back_are_exactly_those_that_were_taken(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    shift_ms = 0

    async def live() -> None:
        nonlocal shift_ms
        ledger = open_ledger(redis_server.url, time_shift_ms=lambda: shift_ms)
        cell, sender = await join(ledger, "n-1", 5)
        asks = [ask(cell) for _ in range(5)]
        for wanted in asks:
            assert await granted_or_none(ledger, wanted)
        await ledger.beat(cell, Heartbeat(sender.node_id, sender.epoch, 45_000))
        assert await held(ledger, cell) == {"n-1": 5}
        shift_ms = 6_000
        due = await ledger.due_attempts((cell,), 10)
        assert {attempt.attempt_id for attempt in due} == {wanted.attempt_id for wanted in asks}
        for attempt in (*due, *due):
            assert isinstance(await ledger.drop(cell, attempt.attempt_id), Dropped)
        assert await held(ledger, cell) == {"n-1": 0}
        again = [await granted_or_none(ledger, ask(cell)) for _ in range(8)]
        assert sum(answer is not None for answer in again) == 5
        await ledger.close()

    asyncio.run(live())


def test_an_attempt_asks_first_where_it_may_already_hold_a_slot(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url, cell_size=1)
        for number in range(4):
            await join(ledger, f"n-{number}", 1)
        in_the_way = ask(0)
        assert isinstance(await ledger.reserve(in_the_way), Granted)
        wanted = ask(0, 1, 2, 3)
        answer = await ledger.reserve(wanted)
        assert isinstance(answer, Granted)
        await ledger.drop(0, in_the_way.attempt_id)
        assert await ledger.reserve(wanted) == answer
        assert (await ledger.size())["held"] == 1
        await ledger.close()

    asyncio.run(live())
