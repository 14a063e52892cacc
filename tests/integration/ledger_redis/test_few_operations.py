"""A job's life costs few operations, and what goes along with others is done all the same."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.integration.ledger_redis.conftest import OpenLedger
from tests.integration.ledger_redis.fleet import ask, claim, join
from tests.servers import RedisProcess

from dragoman.ids import JobId
from dragoman.live.ledger import (
    Bound,
    Claimed,
    Ended,
    Ending,
    Finished,
    Granted,
    Keep,
    Ledger,
    Moved,
    Sender,
    Times,
)
from dragoman.live.protocol import AttemptState, JobResult, JobState, Outcome

pytestmark = pytest.mark.redis

JOBS = 20
NO_LEASE = Keep(lease_ms=0, retention_ms=60_000)
DUE_MS = 5_000


async def live_through_a_job(ledger: Ledger) -> JobId:
    """From the claim to the delivery, on any node of the first cell."""
    claimed = await ledger.claim(claim())
    assert isinstance(claimed, Claimed)
    wanted = ask(0, job_id=claimed.job_id)
    granted = await ledger.reserve(wanted)
    assert isinstance(granted, Granted)
    bound = await ledger.bind(
        claimed.job_id, wanted.attempt_id, granted.cell, granted.node_id, total_ms=None
    )
    assert isinstance(bound, Bound)
    sender = Sender(granted.node_id, granted.owner.epoch)
    moved = await ledger.transition(0, wanted.attempt_id, sender, AttemptState.RUNNING)
    assert isinstance(moved, Moved)
    output = JobResult(claimed.job_id, wanted.attempt_id, success=True)
    ending = Ending(Outcome.SUCCESS, output=output)
    finished = await ledger.finish(0, wanted.attempt_id, sender, ending, due_ms=DUE_MS)
    assert isinstance(finished, Finished)
    times = Times(moved.at_ms, moved.at_ms, moved.at_ms, finished.at_ms)
    ended = await ledger.end(claimed.job_id, wanted.attempt_id, ending, times=times, keep=NO_LEASE)
    assert isinstance(ended, Ended)
    await ledger.settle(0, [wanted.attempt_id])
    await ledger.release([claimed.job_id])
    return claimed.job_id


def test_settling_and_releasing_cost_no_operations_of_their_own_while_jobs_come(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        await join(ledger, "n-1", 4)
        before = Counter(ledger.operations)
        for _ in range(JOBS):
            await live_through_a_job(ledger)
        made = Counter(ledger.operations) - before
        own = ("claim", "reserve", "bind", "transition", "finish", "end")
        assert {name: made[name] for name in own} == dict.fromkeys(own, JOBS)
        # A pause that this machine makes may have one or two of them sent by themselves.
        assert made["settle"] < JOBS / 2
        await ledger.close()

    asyncio.run(live())


def test_a_reader_finds_it_done_whether_it_was_sent_or_not(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        await join(ledger, "n-1", 4)
        for _ in range(3):
            job_id = await live_through_a_job(ledger)
            record = await ledger.read(job_id)
            assert record is not None
            assert record.state is JobState.RELEASED
            assert record.output is None
            assert (await ledger.size())["ended"] == 0
        await ledger.close()

    asyncio.run(live())


def test_a_ledger_that_is_closed_leaves_nothing_undone(
    redis_server: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(redis_server.url)
        await join(ledger, "n-1", 4)
        job_id = await live_through_a_job(ledger)
        await ledger.close()
        other = open_ledger(redis_server.url)
        record = await other.read(job_id)
        assert record is not None
        assert record.state is JobState.RELEASED
        assert (await other.size())["ended"] == 0
        await other.close()

    asyncio.run(live())
