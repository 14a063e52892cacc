"""Nothing stays for ever: after one sweep every key but the directory's has a time to live."""

from __future__ import annotations

from random import Random

import pytest
import redis
from tests.contract.shared.bench import Bench
from tests.integration.shared_redis.conftest import OpenBench
from tests.servers import RedisProcess
from tests.servers.programs import wait_until

from dragoman.ids import JOB_SHARDS
from dragoman.live.ledger import Keep
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

SEED = 11
STEPS = 60
FOREVER = -1


def lifetimes(server: redis.Redis) -> dict[str, int]:
    """The time to live of every key, but for the directory's."""
    keys = [key.decode() for key in server.scan_iter() if b"{directory}" not in key]
    return {key: server.pttl(key) for key in keys}


async def sweep(bench: Bench) -> None:
    await bench.ledger.due(range(JOB_SHARDS), 10)
    await bench.ledger.due_attempts(0, 10)


def live_a_little(bench: Bench, random: Random) -> None:
    """Sessions, jobs and attempts on their way to some end, or left lying where they were."""
    node = bench.join("n-1", slots=STEPS)
    held = bench.begin()
    for index in range(STEPS):
        opening = bench.utterance(held, index)
        bench.open(opening)
        attempt = bench.dispatch(node)
        match random.randrange(6):
            case 0:
                bench.close(opening.jobs[0], held=held, index=index)
            case 1:
                bench.finish(attempt, keep=True)
            case 2:
                bench.cancel(attempt)
            case 3:
                bench.drop(attempt)
            case 4:
                bench(bench.ledger.move(bench.moving(opening.jobs[0])))
            case _:
                bench.open_job()


def test_every_key_has_a_time_to_live_after_one_sweep(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    live_a_little(bench, Random(SEED))
    bench(sweep(bench))
    server = redis.Redis(port=own_redis.port)
    # What lists recent jobs is written a little later.
    bench(bench.ledger.stop())
    left = lifetimes(server)
    assert left
    assert [key for key, ms in left.items() if ms == FOREVER] == []


def test_a_hash_that_was_empty_is_given_its_time_again(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    server = redis.Redis(port=own_redis.port)
    for _ in range(2):
        job = bench.open_job("the-same-shard")
        bench(sweep(bench))
        [key] = server.scan_iter(match="*:open")
        assert server.pttl(key) > 0
        bench.close(job, keep=Keep(lease_ms=0, retention_ms=60_000))
        assert not server.exists(key)


def test_driving_a_job_keeps_it_and_its_input(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    short, long = (open_bench(own_redis.url, job_ttl_ms=ms) for ms in (60_000, 600_000))
    job = short.open_job(total_ms=None)
    server = redis.Redis(port=own_redis.port)
    [key] = server.scan_iter(match="*:r:*")
    assert server.pttl(key) <= 60_000
    assert long(long.ledger.renew([job.job_id], long.opening().instance_id, claim_ms=5_000)) == ()
    assert server.pttl(key) > 60_000


def test_the_keyspace_is_empty_when_everything_has_ended(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node, held = bench.join("n-1"), bench.begin()
    opening = bench.utterance(held, 0)
    bench.open(opening)
    attempt = bench.dispatch(node)
    assert isinstance(bench.finish(attempt, due_ms=0), r.FreedSlot)
    bench.close(opening.jobs[0], held=held, keep=Keep(lease_ms=1, retention_ms=1))
    assert bench(bench.ledger.end_session(held.session_id, held.owner))
    bench(bench.ledger.remove(0, node.sender))
    bench(bench.ledger.forget(node.node_id, node.owner.epoch))
    server = redis.Redis(port=own_redis.port)

    wait_until(
        lambda: all(b"{n" in key or b"{t" in key for key in server.scan_iter()),
        "all but the lists of recent jobs to go",
    )
