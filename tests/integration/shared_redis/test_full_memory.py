"""A Redis whose memory is full ends what there is, and takes nothing new; nothing is oversold."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from tests.contract.shared.bench import (
    CANCELLED,
    CLAIM_MS,
    GRACE_MS,
    HERE,
    LEASE_MS,
    TOMBSTONE_MS,
    Attempt,
    Bench,
    as_attempt,
)
from tests.integration.shared_redis.conftest import OpenBench
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.ids import ConnectionId, NodeId
from dragoman.live.ledger import Done, Ending, NodeLost, Owner, Placement, Registration, Stale
from dragoman.live.protocol import JobResult, Outcome
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis


def fill(server: RedisProcess) -> None:
    """From now on nothing new fits in."""
    used = server.command("INFO", "memory").partition("used_memory:")[2].split()[0]
    assert server.command("CONFIG", "SET", "maxmemory", str(int(used) // 2)) == "OK"


def make_room(server: RedisProcess) -> None:
    server.command("CONFIG", "SET", "maxmemory", "0")


def refused(bench: Bench, asked: Coroutine[Any, Any, object]) -> None:
    with pytest.raises(DependencyDown, match=r"no memory left .* Nothing was done"):
        bench(asked)


def job_with_slot(bench: Bench, node: Any, held: r.Holding, index: int) -> tuple[r.NewJob, Attempt]:
    opening = bench.utterance(held, index)
    bench.open(opening)
    [job] = opening.jobs
    ask = bench.ask(node, attempt_id=job.attempt_id, job_id=job.job_id)
    granted = bench(bench.ledger.reserve(ask))
    assert isinstance(granted, r.Granted)
    return job, as_attempt(ask, granted)


def test_what_is_there_ends_and_what_is_new_is_refused_with_a_reason(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    ledger = bench.ledger
    node, held = bench.join("n-1", slots=3), bench.begin()
    jobs = [job_with_slot(bench, node, held, index) for index in range(3)]
    fill(own_redis)

    # New work is refused.
    refused(bench, ledger.open(bench.utterance(held, 3)))
    refused(bench, ledger.open(bench.opening(bench.new_job())))
    refused(bench, ledger.reserve(bench.ask(node)))
    refused(bench, ledger.preempt(bench.ask(node)))
    refused(bench, ledger.move(bench.moving(jobs[0][0])))
    refused(bench, ledger.begin_session(bench.new_session()))
    refused(bench, ledger.register(Registration(NodeId("n-2"), HERE, ConnectionId("c"))))
    owner = Owner(HERE, ConnectionId("c"), 9)
    refused(bench, ledger.seat(0, Placement(NodeId("n-2"), owner, 1, LEASE_MS)))

    # What there is goes on, and ends.
    assert bench(ledger.renew([job.job_id for job, _ in jobs], HERE, claim_ms=CLAIM_MS)) == ()
    assert bench.accept(jobs[0][1]) == ()
    bench.beat(node, *(attempt.running for _, attempt in jobs))
    (first, attempt), (second, other), (third, untold) = jobs
    finished = bench(
        ledger.finish(0, attempt.attempt_id, attempt.sender, r.Finish(Outcome.SUCCESS))
    )
    assert isinstance(finished, r.FreedSlot)
    assert bench.close(first, held=held, index=0).seq == 1
    won = bench(ledger.cancel(0, other.attempt_id, CANCELLED, grace_ms=GRACE_MS))
    assert isinstance(won, r.CancelWon)
    ended = Ending(Outcome.CANCELLED, error=CANCELLED)
    assert bench.close(second, ended, held=held, index=1).seq == 2
    assert isinstance(
        bench(ledger.drop(0, untold.attempt_id, tombstone_ms=TOMBSTONE_MS)), r.FreedSlot | Stale
    )
    assert bench(ledger.acknowledge(held, 2)) > 0
    assert bench(ledger.disconnect(0, node.sender)) == Done()
    assert isinstance(bench(ledger.lose(0, node.sender)), NodeLost)
    assert bench(ledger.end_session(held.session_id, held.owner))
    assert bench.held(node) == 0

    make_room(own_redis)
    again = bench.join("n-1", slots=1)
    bench.dispatch(again)
    assert bench.try_reserve(again) == r.Full()
    assert bench.job(third.job_id).outcome is None


def test_a_result_that_does_not_fit_in_ends_nothing_until_there_is_room(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node, held = bench.join("n-1"), bench.begin()
    job, attempt = job_with_slot(bench, node, held, 0)
    long = JobResult(job.job_id, attempt.attempt_id, True, text_translated="x" * 4_000)
    ending = Ending(Outcome.SUCCESS, output=long)
    finish = r.Finish(Outcome.SUCCESS, long, None, 10_000)
    fill(own_redis)
    refused(bench, bench.ledger.finish(0, attempt.attempt_id, attempt.sender, finish))
    refused(bench, bench.ledger.close(bench.closing(job, ending, held=held)))
    assert bench.held(node) == 1
    assert bench.job(job.job_id).outcome is None
    make_room(own_redis)
    freed = bench(bench.ledger.finish(0, attempt.attempt_id, attempt.sender, finish))
    assert isinstance(freed, r.FreedSlot)
    assert bench.close(job, ending, held=held).seq == 1
    assert bench.job(job.job_id).output == long
