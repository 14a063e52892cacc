"""A server that freezes, forgets or comes back: refused in time, never wrong, and used again."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.shared.bench import CLAIM_MS, HERE, Bench
from tests.integration.shared_redis.conftest import OpenBench
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.live.ledger import Cold
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

SHORT_MS = 300


def test_a_frozen_server_refuses_in_time_and_what_was_sent_happens_once(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    patient, hasty = open_bench(own_redis.url), open_bench(own_redis.url, timeout_ms=SHORT_MS)
    held, node = patient.begin(), patient.join("n-1", slots=2)
    # Connected, and with its functions known.
    hasty.session(held)
    opening, ask = patient.utterance(held, 0), patient.ask(node)
    own_redis.pause()

    async def place() -> tuple[object, object]:
        return await asyncio.gather(
            hasty.ledger.open(opening), hasty.ledger.reserve(ask), return_exceptions=True
        )

    answers = hasty(place())
    own_redis.resume()
    assert all(isinstance(answer, DependencyDown) for answer in answers)
    # What was sent may have been carried out after all; asked again, it is still once.
    [again] = patient.open(opening).jobs
    assert isinstance(again, r.JobOpened | r.JobFound)
    granted = patient(patient.ledger.reserve(ask))
    assert isinstance(granted, r.Granted)
    assert patient.held(node) == 1
    assert patient.session(held).next_index == 1
    assert len(patient.session(held).open) == 1


def test_a_server_that_forgot_everything_is_cold_and_fills_again(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    held, node = bench.begin(), bench.join("n-1")
    session = bench.session(held)
    opening = bench.utterance(held, 0)
    bench.open(opening)
    attempt = bench.dispatch(node)
    own_redis.restart_empty()
    _until_it_answers(bench)
    assert bench.finish(attempt) == Cold(0)
    assert bench.try_reserve(node) == r.Full(cold=True)
    assert bench(bench.ledger.read(opening.jobs[0].job_id)) is None
    assert bench(bench.ledger.open(bench.utterance(held, 1))) == r.NotOwner(None)
    # The owner writes its session again, the node takes its seat, and both go on.
    assert bench(bench.ledger.restore_session(session)) == session.revision
    assert isinstance(bench(bench.ledger.open(bench.utterance(held, 0))), r.Opened)
    again = bench.join("n-1")
    assert again.owner.epoch > node.owner.epoch
    assert bench.dispatch(again).sender.epoch == again.owner.epoch


def test_an_owner_that_is_remembered_is_not_that_of_a_seat_before_the_server_forgot(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    """A directory that lost its memory may give an epoch again, to another connection."""
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=2)
    bench.dispatch(node)
    own_redis.flush()
    other = open_bench(own_redis.url)
    again = other.join("n-1", slots=2)
    assert again.owner.epoch == node.owner.epoch
    granted = bench(bench.ledger.reserve(bench.ask(again)))
    assert isinstance(granted, r.Granted)
    assert granted.owner == again.owner


def test_a_claim_runs_out_by_the_servers_time(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    job = bench.open_job()
    shard = int(job.job_id[2:4], 16)
    assert bench(bench.ledger.due((shard,), 10)) == ()
    assert bench(bench.ledger.renew([job.job_id], HERE, claim_ms=CLAIM_MS)) == ()
    moved = r.Move(job.job_id, job.attempt_id, job.attempt_id, 0, HERE, 0)
    assert isinstance(bench(bench.ledger.move(moved)), r.MovedOn)
    other = bench.new_job()
    opening = bench.opening(other)
    assert bench.open(r.Opening(opening.jobs, HERE, 0, opening.keep)).jobs == (r.JobOpened(),)
    due = bench(bench.ledger.due((int(other.job_id[2:4], 16),), 10))
    assert [each.job_id for each in due] == [other.job_id]


def _until_it_answers(bench: Bench) -> None:
    """The connection that died with the server is noticed by the first to use it."""
    for _ in range(20):
        try:
            bench(bench.ledger.cells())
        except DependencyDown:
            continue
        return
    raise AssertionError("the server does not answer")
