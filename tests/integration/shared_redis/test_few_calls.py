"""A session's job costs few calls on the server, and one journey for each half of its life."""

from __future__ import annotations

import sys
from functools import _lru_cache_wrapper

import pytest
import redis
from tests.contract.shared.bench import DUE_MS, Attempt, Bench, as_attempt
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import RedisProcess
from tests.servers.programs import wait_until

from dragoman.live import shared
from dragoman.live.ledger import Keep
from dragoman.live.protocol import AttemptState, Outcome
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

NOT_OF_JOBS = frozenset({"info", "fcall", "rpush", "pexpire", "zadd", "zremrangebyscore"})
"""What measures, what runs the functions, and what is gathered and written a few times a second."""


def calls(server: RedisProcess) -> int:
    """How many calls the functions have made."""
    count = 0
    for line in server.command("INFO", "commandstats").splitlines():
        name, found, rest = line.removeprefix("cmdstat_").partition(":calls=")
        if found and name not in NOT_OF_JOBS:
            count += int(rest.partition(",")[0])
    return count


class Life:
    """A session with one node, whose functions are loaded and whose seats are known."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.held, self.node = bench.begin(), bench.join("n-1", slots=4)
        job, attempt = self.place(0)
        self.finish(job, attempt, 0)

    def place(self, index: int) -> tuple[r.NewJob, Attempt]:
        bench = self.bench
        opening = bench.utterance(self.held, index)
        job = opening.jobs[0]
        ask = bench.ask(self.node, attempt_id=job.attempt_id, job_id=job.job_id)
        opened, granted = bench.together(bench.ledger.open(opening), bench.ledger.reserve(ask))
        assert isinstance(opened, r.Opened)
        assert isinstance(granted, r.Granted)
        return job, as_attempt(ask, granted)

    def finish(self, job: r.NewJob, attempt: Attempt, index: int) -> None:
        bench = self.bench
        freed, closed = bench.together(
            bench.ledger.finish(0, attempt.attempt_id, attempt.sender, r.Finish(Outcome.SUCCESS)),
            bench.ledger.close(bench.closing(job, held=self.held, index=index)),
        )
        assert isinstance(freed, r.FreedSlot)
        assert isinstance(closed, r.Closed)
        assert closed.seq == index + 1


def test_a_job_makes_twenty_calls_in_two_journeys(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    life = Life(bench)
    ledger = ledger_of(bench)
    before, journeys = calls(own_redis), ledger.exchanges
    job, attempt = life.place(1)
    placed, journeys_of_placing = calls(own_redis), ledger.exchanges
    life.finish(job, attempt, 1)
    finished = calls(own_redis)
    assert placed - before == 9
    assert finished - placed == 11
    # What lists recent jobs may go at any time, in a journey of its own.
    assert journeys_of_placing - journeys <= 2


def test_nothing_is_kept_of_sessions_and_connections_that_ended(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    """Of all functions that remember their answers."""
    modules = [one for name, one in sys.modules.items() if name.startswith(shared.__name__)]
    remembering = {
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, _lru_cache_wrapper)
    }

    def kept() -> int:
        return sum(one.cache_info().currsize for one in remembering)

    bench = open_bench(own_redis.url)
    life = Life(bench)
    before = kept()
    for _ in range(20):
        life.held = bench.begin()
        life.node = bench.join("n-1", slots=4)
        job, attempt = life.place(0)
        life.finish(job, attempt, 0)
    assert kept() == before


def test_steps_that_were_gathered_cost_three_calls_however_many_they_are(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=20)
    attempts = [bench.dispatch(node) for _ in range(20)]
    steps = [
        r.AttemptStep(each.attempt_id, each.node_id, each.sender.epoch, AttemptState.RUNNING, 1)
        for each in attempts
    ]
    before = calls(own_redis)
    assert bench(bench.ledger.step(0, steps)) == ()
    assert calls(own_redis) - before == 3


def test_a_heartbeat_that_lists_all_that_its_seat_holds_looks_through_nothing(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=3)
    attempts = [bench.dispatch(node) for _ in range(3)]
    operations = ledger_of(bench).operations
    bench.beat(node, *(each.running for each in attempts))
    assert (operations["beat"], operations["HSCAN"]) == (1, 0)
    for attempt in attempts:
        bench.accept(attempt)
    # One is gone: the seat holds more than the node lists.
    beat = bench.beat(node, *(each.running for each in attempts[1:]))
    assert beat.lost == (attempts[0].running,)
    assert (operations["beat"], operations["HSCAN"]) == (3, 1)


def test_a_result_that_its_driver_has_is_not_stored_in_the_cell(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    attempt = bench.dispatch(bench.join("n-1"))
    assert isinstance(bench.finish(attempt, due_ms=0), r.FreedSlot)
    assert bench(bench.ledger.size())["finished"] == 0
    kept = bench.dispatch(bench.join("n-2"))
    assert isinstance(bench.finish(kept, keep=True, due_ms=DUE_MS), r.FreedSlot)
    assert bench(bench.ledger.size())["finished"] == 1


def test_a_heartbeat_costs_the_same_however_many_instances_there_are(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=2)
    running = bench.dispatch(node).running
    bench.beat(node, running)

    def cost() -> int:
        before = calls(own_redis)
        bench.beat(node, running)
        return calls(own_redis) - before

    alone = cost()
    for number in range(6):
        other = open_bench(own_redis.url)
        assert other(other.ledger.read_changes(0, 0)) is not None
        ask = other.ask(candidates=0, instance_id=f"i-{number}", waits_for="zh-en")
        assert other(other.ledger.reserve(ask)) == r.Full()
    assert cost() == alone
    version = bench(bench.ledger.cell_version(0))
    bench.beat(node, running)
    assert bench(bench.ledger.cell_version(0)) == version, "no instance has anything to fetch"


def memory(server: RedisProcess, pattern: str) -> int:
    """Bytes of the keys that match."""
    with redis.Redis.from_url(server.url) as client:
        return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(pattern))


def test_an_open_job_with_its_slot_and_a_node_take_few_bytes(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    """No more than the data model before: about 1,250 bytes a job, 530 a node and its facts."""
    bench = open_bench(own_redis.url)
    prefix = ledger_of(bench).key_prefix
    nodes = [bench.join(f"node-{number:03}", slots=8) for number in range(50)]
    of_nodes = memory(own_redis, f"{prefix}:*")
    assert of_nodes / len(nodes) < 530
    for number in range(400):
        job = bench.open_job()
        node = nodes[number % len(nodes)]
        bench.dispatch(node, attempt_id=job.attempt_id, job_id=job.job_id)
    of_jobs = memory(own_redis, f"{prefix}:*") - of_nodes
    assert of_jobs / 400 < 1_250


def test_in_the_end_only_directory_and_presence_are_left(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    """Everything else has a time to live, and what is over is taken out before that."""
    bench = open_bench(own_redis.url, session_ms=1, job_ttl_ms=1)
    prefix = ledger_of(bench).key_prefix
    soon = Keep(lease_ms=1, retention_ms=1)
    node = bench.join("n-1", slots=4)
    for _ in range(20):
        job = bench.new_job(total_ms=60_000)
        bench.open(bench.opening(job, keep=soon))
        attempt = bench.dispatch(node, attempt_id=job.attempt_id, job_id=job.job_id)
        bench.finish(attempt, due_ms=0)
        bench.close(job, keep=soon)
    bench(bench.ledger.remove(0, node.sender))
    bench(bench.ledger.stop())
    with redis.Redis.from_url(own_redis.url) as client:

        def left() -> set[str]:
            keys = {key.decode() for key in client.scan_iter(f"{prefix}:*")}
            # The list of recent jobs lives as long as a job may be kept.
            return {key for key in keys if ":jobs:" not in key and not key.endswith(":lists")}

        wait_until(lambda: all("{directory}" in key for key in left()), "what is over to be gone")
