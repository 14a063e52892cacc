"""Long payloads lie under keys of their own, come and go with their jobs, and are never missed."""

from __future__ import annotations

import msgspec
import pytest
import redis
from tests.contract.shared.bench import KEEP, Bench, success
from tests.integration.shared_redis.conftest import OpenBench
from tests.servers import RedisProcess

from dragoman.errors import DependencyDown
from dragoman.live.ledger import Ending, JobInput, Keep
from dragoman.live.protocol import JobResult, Outcome
from dragoman.live.shared import records as r

pytestmark = pytest.mark.redis

AUDIO = bytes(range(256)) * 400
MOST_IN_A_RECORD = 3_000


@pytest.fixture
def bench(own_redis: RedisProcess, open_bench: OpenBench) -> Bench:
    return open_bench(own_redis.url)


@pytest.fixture
def server(own_redis: RedisProcess) -> redis.Redis:
    return redis.Redis(port=own_redis.port)


def long_job(bench: Bench, request_id: str = "") -> r.NewJob:
    return msgspec.structs.replace(bench.new_job(request_id), input=JobInput(audio=AUDIO))


def long_end(job: r.NewJob) -> Ending:
    result = JobResult(job.job_id, job.attempt_id, True, tts_audio=AUDIO)
    return Ending(Outcome.SUCCESS, result)


def kinds(server: redis.Redis) -> dict[str, int]:
    """How many keys of each kind there are, and that no record has become long."""
    found: dict[str, int] = {}
    for key in server.scan_iter():
        kind = key.decode().partition("}:")[2].partition(":")[0]
        found[kind] = found.get(kind, 0) + 1
        if kind == "r":
            assert server.strlen(key) < MOST_IN_A_RECORD
    return found


def test_a_long_input_lies_elsewhere_until_its_job_has_ended(
    bench: Bench, server: redis.Redis
) -> None:
    job = long_job(bench)
    bench.open(bench.opening(job))
    assert kinds(server)["i"] == 1
    work = bench(bench.ledger.read_open(job.job_id))
    assert work is not None
    assert work.input == job.input
    bench.close(job)
    assert "i" not in kinds(server)


def test_a_long_result_comes_back_and_goes_when_its_delivery_was_acknowledged(
    bench: Bench, server: redis.Redis
) -> None:
    job = bench.open_job()
    bench.close(job, long_end(job))
    assert kinds(server)["o"] == 1
    assert bench.job(job.job_id).output == long_end(job).output
    [key] = server.scan_iter(match="*:o:*")
    assert server.pttl(key) > KEEP.lease_ms
    bench(bench.ledger.release([job.job_id]))
    assert 0 < server.pttl(key) <= KEEP.lease_ms


def test_a_long_result_of_a_failed_job_goes_at_once_when_it_was_acknowledged(
    bench: Bench, server: redis.Redis
) -> None:
    job = bench.open_job()
    ending = msgspec.structs.replace(long_end(job), outcome=Outcome.FAILED)
    bench.close(job, ending, keep=Keep(lease_ms=0, retention_ms=60_000))
    bench(bench.ledger.release([job.job_id]))
    assert bench.job(job.job_id).released
    assert bench.job(job.job_id).output is None


def test_a_request_that_was_made_before_leaves_no_second_input(
    bench: Bench, server: redis.Redis
) -> None:
    bench.open(bench.opening(long_job(bench, "once")))
    [answer] = bench.open(bench.opening(long_job(bench, "once"))).jobs
    assert isinstance(answer, r.JobFound)
    bench.open_job()
    assert kinds(server)["i"] == 1


def test_an_opening_that_comes_again_after_the_end_leaves_no_input(
    bench: Bench, server: redis.Redis
) -> None:
    job = long_job(bench)
    bench.open(bench.opening(job))
    bench.close(job)
    [answer] = bench.open(bench.opening(job)).jobs
    assert isinstance(answer, r.JobFound)
    bench.open_job()
    assert "i" not in kinds(server)


def test_a_driver_that_takes_a_job_over_gets_its_long_input(bench: Bench) -> None:
    job = long_job(bench)
    bench.open(msgspec.structs.replace(bench.opening(job), claim_ms=0))
    taken = bench.take_over(job)
    assert isinstance(taken, r.TakenOver)
    assert taken.work.input == job.input


def test_a_long_result_that_is_kept_for_its_driver_comes_back_until_it_is_settled(
    bench: Bench, server: redis.Redis
) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    result = JobResult(attempt.job_id, attempt.attempt_id, True, tts_audio=AUDIO)
    finish = r.Finish(Outcome.SUCCESS, result, None, 0)
    freed = bench(bench.ledger.finish(0, attempt.attempt_id, attempt.sender, finish))
    assert isinstance(freed, r.FreedSlot)
    found = bench.look(attempt)
    assert isinstance(found, r.StoredAttempt)
    assert found.output == result
    assert bench(bench.ledger.due_attempts(0, 10)) == (found,)
    bench(bench.ledger.settle(0, [attempt.attempt_id]))
    assert "o" not in kinds(server)


def test_a_full_server_refuses_new_work_and_lets_jobs_end(
    bench: Bench, own_redis: RedisProcess
) -> None:
    held, node = bench.begin(), bench.join("n-1", slots=3)
    opening = bench.utterance(held, 0)
    bench.open(opening)
    done, cancelled = bench.dispatch(node), bench.dispatch(node)
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(DependencyDown, match="maxmemory"):
        bench(bench.ledger.open(bench.utterance(held, 1)))
    with pytest.raises(DependencyDown, match="maxmemory"):
        bench.try_reserve(node)
    assert bench.close(opening.jobs[0], held=held).seq == 1
    assert isinstance(bench.finish(done, due_ms=0), r.FreedSlot)
    assert isinstance(bench.cancel(cancelled), r.CancelWon)
    assert bench.beat(node, cancelled.running).cancelling == (cancelled.running,)
    own_redis.command("CONFIG", "SET", "maxmemory", "0")
    assert bench.held(node) == 1


def test_a_job_does_not_end_without_the_result_that_memory_was_too_full_for(
    bench: Bench, own_redis: RedisProcess
) -> None:
    job, attempt = bench.open_job(), bench.dispatch(bench.join("n-1"))
    result = JobResult(attempt.job_id, attempt.attempt_id, True, tts_audio=AUDIO)
    finish = r.Finish(Outcome.SUCCESS, result, None, 0)
    own_redis.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(DependencyDown):
        bench.close(job, long_end(job))
    with pytest.raises(DependencyDown):
        bench(bench.ledger.finish(0, attempt.attempt_id, attempt.sender, finish))
    own_redis.command("CONFIG", "SET", "maxmemory", "0")
    assert bench.job(job.job_id).outcome is None
    assert isinstance(bench.close(job, long_end(job)), r.Closed)
    assert bench.job(job.job_id).output == long_end(job).output
    freed = bench(bench.ledger.finish(0, attempt.attempt_id, attempt.sender, finish))
    assert isinstance(freed, r.FreedSlot)


def test_a_short_result_lies_in_the_record(bench: Bench, server: redis.Redis) -> None:
    job = bench.open_job()
    bench.close(job, success(job.job_id, job.attempt_id))
    assert "o" not in kinds(server)
