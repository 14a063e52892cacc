"""A server that freezes, forgets or comes back: refused in time, never wrong, and used again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.contract.shared.bench import CLAIM_MS, HERE, LEASE_MS, RUN_MS, Bench
from tests.integration.shared_redis.conftest import OpenBench, ledger_of
from tests.servers import PATIENT_MS, RedisProcess
from tests.servers.programs import wait_until

from dragoman.cli.redis_keys import families
from dragoman.errors import DependencyDown
from dragoman.live.ledger import Adoption, Cold, Done
from dragoman.live.protocol import JobClass
from dragoman.live.shared import RedisCheck
from dragoman.live.shared import records as r
from dragoman.live.shared.check import Damage, LedgerFinding

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


def test_after_a_flush_nothing_is_granted_on_top_of_what_nodes_still_run(
    own_redis: RedisProcess, open_bench: OpenBench
) -> None:
    bench = open_bench(own_redis.url)
    node = bench.join("n-1", slots=2)
    jobs = [bench.open_job() for _ in range(2)]
    attempts = [bench.dispatch(node, attempt_id=job.attempt_id, job_id=job.job_id) for job in jobs]
    own_redis.flush()
    assert bench.try_beat(node, *(each.running for each in attempts)) == Cold(0)
    again = bench.join("n-1", slots=2, running=tuple(each.running for each in attempts))
    assert again.placed.unknown == tuple(each.running for each in attempts)
    # Whatever became of the jobs, the node still works: its slots are taken at once.
    for attempt in attempts:
        adoption = Adoption(
            attempt.running, again.sender, JobClass.LIVE, False, LEASE_MS, RUN_MS, 1, HERE
        )
        assert bench(bench.ledger.adopt(0, adoption)) == Done()
    assert bench.try_reserve(again) == r.Full()
    bench.beat(again, number=2)
    bench.dispatch(again)
    bench.dispatch(again)
    assert bench.try_reserve(again) == r.Full()


def test_after_a_failover_that_lost_writes_what_is_left_fits_together(
    own_redis: RedisProcess, open_bench: OpenBench, tmp_path: Path
) -> None:
    replica = own_redis.start_replica(tmp_path / "replica")
    try:
        before = open_bench(own_redis.url)
        held, node = before.begin(), before.join("n-1", slots=3)
        kept = before.utterance(held, 0)
        before.open(kept)
        kept_attempt = before.dispatch(
            node, attempt_id=kept.jobs[0].attempt_id, job_id=kept.jobs[0].job_id
        )
        wait_until(lambda: _has_caught_up(own_redis, replica), "the replica to catch up")
        replica.command("REPLICAOF", "NO", "ONE")
        # What happens from here on is lost: an end, a job with its slot, and a node.
        before.finish(kept_attempt)
        before.close(kept.jobs[0], held=held)
        lost = before.utterance(held, 1)
        before.open(lost)
        lost_attempt = before.dispatch(
            node, attempt_id=lost.jobs[0].attempt_id, job_id=lost.jobs[0].job_id
        )
        session = before.session(held)

        after = open_bench(replica.url)
        assert _findings(after, replica) == []
        assert after.job(kept.jobs[0].job_id).outcome is None
        assert after(after.ledger.read(lost.jobs[0].job_id)) is None
        # The session's owner knows better and writes it again; the job that ended ends again.
        seen = msgspec.structs.replace(held, seen=session.revision)
        assert after(after.ledger.open(after.utterance(seen, 2))) == r.NotOwner(held.owner)
        assert after(after.ledger.restore_session(session)) == session.revision
        assert after.close(kept.jobs[0]).at_ms > 0
        # The node lists what it runs: one that the cell still holds is gone, one it never knew is
        # adopted, and no slot is given twice.
        beat = after.beat(node, lost_attempt.running, number=9)
        assert beat.unknown == (lost_attempt.running,)
        adoption = Adoption(
            lost_attempt.running, node.sender, JobClass.LIVE, False, LEASE_MS, RUN_MS, 9, HERE
        )
        assert after(after.ledger.adopt(0, adoption)) == Done()
        assert after.held(node) == 2
        after.dispatch(node)
        assert after.try_reserve(node) == r.Full()
    finally:
        replica.stop()


def _has_caught_up(primary: RedisProcess, replica: RedisProcess) -> bool:
    def offset(server: RedisProcess, name: str) -> str:
        told = server.command("INFO", "replication")
        return told.partition(f"{name}:")[2].split()[0]

    return offset(primary, "master_repl_offset") == offset(replica, "slave_repl_offset")


def _findings(bench: Bench, server: RedisProcess) -> list[LedgerFinding]:
    async def look() -> list[LedgerFinding]:
        prefix = ledger_of(bench).key_prefix
        check = RedisCheck(server.url, families(), key_prefix=prefix, timeout_ms=PATIENT_MS)
        try:
            return await check.look()
        finally:
            await check.close()

    found = bench(look())
    # The sweep, which does not run here, gives keys their time to live.
    return [each for each in found if each.damage is not Damage.NO_TIME_TO_LIVE]


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
    assert bench.open(r.UtteranceOpening(opening.jobs, HERE, 0, opening.keep)).jobs == (
        r.JobOpened(),
    )
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
