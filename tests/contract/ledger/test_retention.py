"""How long things are remembered, how they are listed, and that nothing stays for ever."""

from __future__ import annotations

from collections.abc import Iterable

from tests.contract.ledger.bench import (
    CLAIM_MS,
    DUE_MS,
    HERE,
    KEEP,
    TENANT,
    THERE,
    Bench,
    failure,
    success,
)

from dragoman.ids import JOB_SHARDS, JobId, TenantId
from dragoman.live.ledger import (
    Existing,
    JobRecord,
    StillHeld,
    Taken,
)
from dragoman.live.protocol import JobState, Outcome

ALL_SHARDS = range(JOB_SHARDS)
LEASE_SECONDS = KEEP.lease_ms / 1000
RETENTION_SECONDS = KEEP.retention_ms / 1000


def succeeded(bench: Bench, request: str = "r-1") -> JobId:
    node = bench.join("n-1")
    attempt = bench.dispatch(node, job_id=bench.new_job(request))
    bench.finish(attempt)
    bench.end(attempt.job_id, attempt.attempt_id, success(attempt))
    bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
    return attempt.job_id


def due(bench: Bench) -> set[JobId]:
    return names(bench(bench.ledger.due_jobs(ALL_SHARDS, 1_000)))


def names(jobs: Iterable[JobRecord]) -> set[JobId]:
    return {job.job_id for job in jobs}


# --- release ------------------------------------------------------------------------------------


def test_an_acknowledged_job_is_released_when_the_bindings_lease_ends_and_not_before(
    bench: Bench,
) -> None:
    job_id = succeeded(bench)
    for _ in range(2):
        bench(bench.ledger.release([job_id]))
    bench.advance(LEASE_SECONDS - 1)
    due(bench)
    assert bench.job(job_id).state is JobState.FINISHED
    again = bench(bench.ledger.claim(bench.claim("r-1")))
    assert isinstance(again, Existing)
    assert again.job.output is not None
    bench.advance(2)
    due(bench)
    released = bench.job(job_id)
    assert (released.state, released.output) == (JobState.RELEASED, None)
    assert released.outcome is Outcome.SUCCESS


def test_a_failed_job_is_released_as_soon_as_it_is_acknowledged(bench: Bench) -> None:
    job_id = bench.new_job()
    bench.end(job_id, None, failure())
    bench(bench.ledger.release([job_id]))
    job = bench.job(job_id)
    assert job.state is JobState.RELEASED
    assert job.error is not None, "why it failed is told for as long as it is remembered"


def test_a_job_that_is_not_acknowledged_is_released_after_the_retention(bench: Bench) -> None:
    job_id = succeeded(bench)
    bench.advance(RETENTION_SECONDS - 1)
    due(bench)
    assert bench.job(job_id).output is not None
    bench.advance(2)
    due(bench)
    assert bench.job(job_id).state is JobState.RELEASED


def test_a_released_job_is_forgotten_in_the_end(bench: Bench) -> None:
    job_id = succeeded(bench)
    for _ in range(3):
        bench.advance(RETENTION_SECONDS + LEASE_SECONDS + 1)
        due(bench)
    assert bench(bench.ledger.read(job_id)) is None
    assert bench(bench.ledger.recent(TENANT, 10)) == ()


def test_an_unfinished_job_is_not_released(bench: Bench) -> None:
    job_id = bench.new_job()
    bench(bench.ledger.release([job_id]))
    assert bench.job(job_id).state is JobState.CREATED
    assert bench(bench.ledger.read_input(job_id)) is not None


# --- what is due --------------------------------------------------------------------------------


def test_a_created_job_is_due_when_its_claim_runs_out(bench: Bench) -> None:
    job_id = bench.new_job()
    assert due(bench) == set()
    bench.advance(CLAIM_MS / 1000 + 1)
    assert due(bench) == {job_id}
    assert due(bench) == {job_id}, "it stays due until somebody acts"


def test_renewing_the_claim_keeps_the_job_from_being_due(bench: Bench) -> None:
    job_id = bench.new_job()
    for _ in range(5):
        bench.advance(CLAIM_MS / 1000 - 1)
        assert bench(bench.ledger.renew_claims([job_id], HERE, claim_ms=CLAIM_MS)) == ()
        assert due(bench) == set()


def test_a_claim_is_renewed_only_by_the_instance_that_has_it(bench: Bench) -> None:
    mine, theirs, ended = bench.new_job(), bench.new_job(instance_id=THERE), bench.new_job()
    bench.end(ended, None, failure())
    refused = bench(bench.ledger.renew_claims([mine, theirs, ended], HERE, claim_ms=CLAIM_MS))
    assert set(refused) == {theirs, ended}


def test_a_job_is_taken_over_only_after_its_claim_ran_out(bench: Bench) -> None:
    claim = bench.claim()
    job_id = bench(bench.ledger.claim(claim)).job_id  # type: ignore[union-attr]
    early = bench.ledger.take_over(job_id, THERE, claim_ms=CLAIM_MS)
    assert bench(early) == StillHeld(HERE)
    bench.advance(CLAIM_MS / 1000 + 1)
    taken = bench(bench.ledger.take_over(job_id, THERE, claim_ms=CLAIM_MS))
    assert isinstance(taken, Taken)
    assert (taken.job.claimed_by, taken.input) == (THERE, claim.input)
    assert due(bench) == set()
    assert bench(bench.ledger.renew_claims([job_id], HERE, claim_ms=CLAIM_MS)) == (job_id,)


def test_a_job_that_is_dispatched_or_ended_is_not_taken_over(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    ended = bench.new_job()
    bench.end(ended, None, failure())
    bench.advance(CLAIM_MS / 1000 + 1)
    for job_id in (attempt.job_id, ended):
        answer = bench(bench.ledger.take_over(job_id, THERE, claim_ms=CLAIM_MS))
        assert isinstance(answer, StillHeld)


def test_a_dispatched_job_is_due_when_its_total_time_is_up(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.advance(59)
    assert due(bench) == set()
    bench.advance(2)
    assert due(bench) == {attempt.job_id}


def test_only_the_shards_asked_for_are_looked_at(bench: Bench) -> None:
    jobs = {bench.new_job() for _ in range(20)}
    bench.advance(CLAIM_MS / 1000 + 1)
    found = [names(bench(bench.ledger.due_jobs([shard], 100))) for shard in ALL_SHARDS]
    assert sorted(job for names_ in found for job in names_) == sorted(jobs)


def test_what_is_due_comes_in_portions(bench: Bench) -> None:
    jobs = {bench.new_job() for _ in range(10)}
    node = bench.join("n-1", slots=10)
    for job_id in jobs:
        bench.reserve(bench.ask(job_id, node))
    bench.advance(CLAIM_MS / 1000 + 1)
    assert len(bench(bench.ledger.due_jobs(ALL_SHARDS, 4))) == 4
    assert len(bench(bench.ledger.due_attempts([node.cell], 4))) == 4
    assert len(bench(bench.ledger.due_attempts([node.cell], 100))) == 10


def test_attempts_are_due_when_their_lease_run_time_or_end_asks_for_it(bench: Bench) -> None:
    node = bench.join("n-1", slots=4)
    unacked, silent, long, ended = (bench.dispatch(node) for _ in range(4))
    bench.ack(silent)
    bench.ack(long)
    bench.finish(ended)

    def due_now() -> set[str]:
        records = bench(bench.ledger.due_attempts([node.cell, 99], 100))
        return {record.attempt_id for record in records}

    assert due_now() == set()
    bench.advance(DUE_MS / 1000 + 1)
    assert due_now() == {ended.attempt_id}
    bench.advance(4)
    assert due_now() == {ended.attempt_id, unacked.attempt_id}
    bench.advance(26)
    assert due_now() == {one.attempt_id for one in (unacked, silent, long, ended)}
    bench(bench.ledger.settle(node.cell, [ended.attempt_id]))
    assert ended.attempt_id not in due_now()


# --- lists --------------------------------------------------------------------------------------


def test_a_tenants_jobs_are_listed_newest_first_page_by_page(bench: Bench) -> None:
    made = []
    for number in range(12):
        made.append(bench.new_job())
        if number % 3 == 0:
            bench.advance(0.01)
    other = bench.new_job(tenant=TenantId("other"))
    listed: list[JobRecord] = []
    before: tuple[int, JobId] | None = None
    while page := bench(bench.ledger.recent(TENANT, 5, before)):
        listed += page
        before = (page[-1].created_at_ms, page[-1].job_id)
    assert sorted(job.job_id for job in listed) == sorted(made)
    times = [job.created_at_ms for job in listed]
    assert times == sorted(times, reverse=True)
    assert other not in names(listed)


# --- nothing stays ------------------------------------------------------------------------------


def test_when_everything_has_ended_nothing_is_left(bench: Bench) -> None:
    before = bench(bench.ledger.size())
    assert set(before.values()) == {0}
    nodes = [bench.join(f"n-{number}", slots=3) for number in range(3)]
    for number in range(6):
        attempt = bench.dispatch(*nodes, job_id=bench.new_job(f"r-{number}"))
        if number % 2:
            bench.finish(attempt)
            bench.end(attempt.job_id, attempt.attempt_id, success(attempt))
        else:
            bench.cancel(attempt)
            bench.end(attempt.job_id, attempt.attempt_id, failure())
            bench.finish(attempt)
        bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
    during = bench(bench.ledger.size())
    assert (during["nodes"], during["jobs"], during["held"]) == (3, 6, 0)
    for node in nodes:
        bench(bench.ledger.remove(node.cell, node.sender))
        bench(bench.ledger.forget(node.node_id, node.owner.epoch))
    for _ in range(3):
        bench.advance(RETENTION_SECONDS + LEASE_SECONDS)
        due(bench)
    assert bench(bench.ledger.size()) == before
