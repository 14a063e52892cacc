"""Nothing stays for ever: what a job leaves behind expires without a sweep."""

from __future__ import annotations

import asyncio
from itertools import groupby
from random import Random

import pytest
import redis
from tests.integration.ledger_redis.conftest import OpenLedger
from tests.integration.ledger_redis.fleet import HERE, TENANT, ask, claim, join
from tests.servers import RedisProcess

from dragoman.ids import AttemptId, JobId, RequestId, request_shard
from dragoman.live.ledger import Claimed, Ending, Granted, Keep, RedisLedger, Sender
from dragoman.live.protocol import AttemptState, ErrorInfo, JobResult, Outcome

pytestmark = pytest.mark.redis

CELL_TTL_MS, JOB_TTL_MS = 7_200_000, 3_600_000
KEEP = Keep(lease_ms=1_000, retention_ms=5_000)
FIRST_KEYS = (":board", ":jobs")
STEPS = 120
BUSY_SHARDS = 2


def lifetimes(server: redis.Redis) -> dict[str, dict[str, int]]:
    """The time to live of every key, by tag; the directory's stay until their nodes are gone."""
    keys = sorted(key.decode() for key in server.scan_iter(count=1_000))
    keys = [key for key in keys if "{directory}" not in key]
    with server.pipeline(transaction=False) as asked:
        for key in keys:
            asked.pttl(key)
        left = dict(zip(keys, asked.execute(), strict=True))
    return {
        tag: {key: left[key] for key in members}
        for tag, members in groupby(left, key=lambda key: key.rpartition(":")[0])
    }


async def live_a_little(ledger: RedisLedger, cell: int, sender: Sender, random: Random) -> None:
    """One job on its way to some end, or left lying where it was."""
    claimed = await ledger.claim(claim(_request_of_a_busy_shard(random)))
    assert isinstance(claimed, Claimed)
    attempt_id = AttemptId(f"a-{random.getrandbits(64):x}")
    steps = random.randrange(7)
    if steps > 0:
        wanted = ask(cell, job_id=claimed.job_id, attempt_id=attempt_id)
        if not isinstance(await ledger.reserve(wanted), Granted):
            return
        await ledger.bind(claimed.job_id, attempt_id, cell, sender.node_id, total_ms=None)
    if steps > 1:
        await ledger.transition(cell, attempt_id, sender, AttemptState.ACCEPTED)
    if steps > 2:
        await _end(ledger, cell, sender, claimed.job_id, attempt_id, random)
    if steps > 3:
        await ledger.settle(cell, [attempt_id])
    if steps > 4:
        await ledger.release([claimed.job_id])


def _request_of_a_busy_shard(random: Random) -> str:
    while True:
        request_id = f"r-{random.getrandbits(64):x}"
        if request_shard(TENANT, RequestId(request_id), "en") < BUSY_SHARDS:
            return request_id


async def _end(
    ledger: RedisLedger,
    cell: int,
    sender: Sender,
    job_id: JobId,
    attempt_id: AttemptId,
    random: Random,
) -> None:
    ending = Ending(Outcome.SUCCESS, JobResult(job_id, attempt_id, True, text_asr="hello"))
    if random.random() < 0.4:
        error = ErrorInfo("LATE", "It took too long.")
        ending = Ending(Outcome.FAILED, error=error)
        await ledger.cancel(cell, attempt_id, error, grace_ms=100)
    await ledger.finish(cell, attempt_id, sender, ending, due_ms=100)
    await ledger.end(job_id, attempt_id, ending, keep=KEEP)


@pytest.mark.parametrize("seed", range(3))
def test_every_key_lapses_and_none_before_the_first_of_its_tag(
    own_redis: RedisProcess, open_ledger: OpenLedger, seed: int
) -> None:
    random = Random(seed)
    shift_ms = 0

    async def live() -> None:
        nonlocal shift_ms
        ledger = open_ledger(
            own_redis.url,
            time_shift_ms=lambda: shift_ms,
            cell_ttl_ms=CELL_TTL_MS,
            job_ttl_ms=JOB_TTL_MS,
        )
        cell, sender = await join(ledger, "n-1", 400)
        with redis.Redis(port=own_redis.port) as server:
            for step in range(STEPS):
                await live_a_little(ledger, cell, sender, random)
                shift_ms += random.choice((0, 10, 3_000))
                if random.random() < 0.2:
                    await ledger.due_jobs(range(256), 1_000)
                for tag, left_ms in lifetimes(server).items():
                    first_ms = next(left_ms[key] for key in left_ms if key.endswith(FIRST_KEYS))
                    least_ms = JOB_TTL_MS if ":{j" in tag else CELL_TTL_MS
                    assert first_ms >= least_ms - 60_000, (seed, step, tag)
                    # Asked for one after another, so a moment later is not a moment less.
                    assert min(left_ms.values()) >= first_ms - 1_000, (seed, step, left_ms)
        await ledger.close()

    asyncio.run(live())


def test_a_claim_that_is_renewed_keeps_its_input_as_long_as_the_job(
    own_redis: RedisProcess, open_ledger: OpenLedger
) -> None:
    async def live() -> None:
        ledger = open_ledger(own_redis.url, job_ttl_ms=1_000)
        claimed = await ledger.claim(claim())
        assert isinstance(claimed, Claimed)
        for _ in range(3):
            await ledger.renew_claims([claimed.job_id], HERE, claim_ms=50_000)
        with redis.Redis(port=own_redis.port) as server:
            (left_ms,) = lifetimes(server).values()
        assert min(left_ms.values()) >= 50_000
        await ledger.close()

    asyncio.run(live())
