"""A session's job costs few calls on the server, and one journey for each half of its life."""

from __future__ import annotations

import pytest
from tests.contract.shared.bench import DUE_MS, Attempt, Bench, as_attempt
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import RedisProcess

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
        assert isinstance(freed, r.Freed)
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


def test_steps_that_were_gathered_cost_three_calls_however_many_they_are(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=20)
    attempts = [bench.dispatch(node) for _ in range(20)]
    steps = [
        r.Step(each.attempt_id, each.node_id, each.sender.epoch, AttemptState.RUNNING, 1)
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
    assert isinstance(bench.finish(attempt, due_ms=0), r.Freed)
    assert bench(bench.ledger.size())["finished"] == 0
    kept = bench.dispatch(bench.join("n-2"))
    assert isinstance(bench.finish(kept, keep=True, due_ms=DUE_MS), r.Freed)
    assert bench(bench.ledger.size())["finished"] == 1
