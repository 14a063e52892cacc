"""The sweep of any instance ends what was left behind, once."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from tests.contract.ledger.bench import (
    ACK_MS,
    CANCELLED,
    CLAIM_MS,
    GRACE_MS,
    KEEP,
    LEASE_MS,
    RUN_MS,
    THERE,
    TOTAL_MS,
    Bench,
    failure,
)
from tests.contract.ledger.hands import RecordingHands, ReportingHands

from dragoman.ids import JOB_SHARDS, JobId
from dragoman.live.ledger import (
    AttemptRecord,
    Bound,
    CancelWon,
    JobInput,
    JobRecord,
    Ledger,
    NotBound,
    Sweeper,
    Terms,
)
from dragoman.live.protocol import AttemptState, ErrorInfo, JobClass, JobState, Outcome

TERMS = Terms(
    ack_ms=ACK_MS,
    run_ms=RUN_MS,
    total_ms=TOTAL_MS,
    lease_ms=LEASE_MS,
    grace_ms=GRACE_MS,
    max_attempts=3,
    keep=KEEP,
)
CELLS = range(2)


def sweep(bench: Bench, hands: RecordingHands | None = None) -> RecordingHands:
    hands = hands or RecordingHands()
    sweeper = Sweeper(bench.ledger, hands, TERMS, THERE)
    bench(sweeper.sweep(CELLS, range(JOB_SHARDS)))
    return hands


class Overtaken:
    """A ledger in which another process acts right after the sweep has read a job."""

    def __init__(self, ledger: Ledger, meanwhile: list[Coroutine[Any, Any, object]]) -> None:
        self._ledger = ledger
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def read(self, job_id: JobId) -> JobRecord | None:
        record = await self._ledger.read(job_id)
        while self._meanwhile:
            await self._meanwhile.pop()
        return record


def test_nothing_due_is_nothing_done(bench: Bench) -> None:
    bench.dispatch(bench.join("n-1"))
    hands = sweep(bench)
    assert (hands.told, hands.dispatched, hands.ends, hands.asked) == ([], [], [], [])


def test_a_job_whose_instance_fell_silent_is_dispatched_by_the_sweeper(bench: Bench) -> None:
    job_id = bench.new_job()
    bench.advance(CLAIM_MS / 1000 + 1)
    hands = sweep(bench)
    assert [job.job_id for job, _ in hands.dispatched] == [job_id]
    assert bench.job(job_id).claimed_by == THERE
    assert sweep(bench).dispatched == [], "one of many sweepers gets it"


def test_a_slot_reserved_and_never_bound_is_given_back(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.reserve(bench.ask(bench.new_job(), node))
    bench.advance(ACK_MS / 1000 + 1)
    hands = sweep(bench)
    assert hands.free_slots == 1
    assert bench.held(node) == 0
    assert bench.bind(attempt) == NotBound(ended=False), "a slow binder comes too late"


def test_a_slot_bound_while_the_sweep_gives_it_up_is_held_until_its_node_lets_go(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    job_id = bench.new_job()
    attempt = bench.reserve(bench.ask(job_id, node))
    bench.advance(ACK_MS / 1000 + 1)
    bind = bench.ledger.bind(job_id, attempt.attempt_id, attempt.cell, node.node_id, total_ms=None)
    hands = RecordingHands()
    sweeper = Sweeper(Overtaken(bench.ledger, [bind]), hands, TERMS, THERE)
    bench(sweeper.sweep(CELLS, range(JOB_SHARDS)))
    assert bench.held(node) == 1, "the driver that bound it tells the node"
    assert bench.state(attempt) is AttemptState.CANCELLING
    assert [won.job_id for won in hands.told] == [job_id]
    assert [job.job_id for job, _ in hands.dispatched] == [job_id]
    assert bench.job(job_id).current is None


def test_a_slot_bound_and_lost_by_its_job_is_held_until_its_node_lets_go(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.retry(attempt)
    bench.advance(ACK_MS / 1000 + 1)
    hands = sweep(bench)
    assert bench.held(node) == 1, "the driver that bound it may have told the node"
    assert [won.job_id for won in hands.told] == [attempt.job_id]


def test_an_attempt_that_was_not_acknowledged_fails_over(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.advance(ACK_MS / 1000 + 1)
    hands = sweep(bench)
    assert [won.job_id for won in hands.told] == [attempt.job_id]
    assert [job.job_id for job, _ in hands.dispatched] == [attempt.job_id]
    assert bench.job(attempt.job_id).state is JobState.CREATED
    assert bench.state(attempt) is AttemptState.CANCELLING
    assert bench.held(node) == 1, "the node may still be working on it"


def test_an_attempt_that_runs_too_long_fails_over(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.ack(attempt, AttemptState.RUNNING)
    for _ in range(3):
        bench.advance(10.1)
        bench.beat(node, attempt.running)
    hands = sweep(bench)
    assert len(hands.told) == len(hands.dispatched) == 1
    past = bench.job(attempt.job_id).attempts[0]
    assert past.error is not None
    assert past.error.code == "JOB_TIMEOUT"


def test_a_silent_node_is_lost_and_its_jobs_fail_over(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    bench.advance(LEASE_MS / 1000 - 1)
    attempts = [bench.dispatch(node) for _ in range(2)]
    for attempt in attempts:
        bench.ack(attempt)
    bench.advance(RUN_MS / 1000 - 1)
    sweep(bench)
    bench.advance(2)
    hands = sweep(bench)
    assert {job.job_id for job, _ in hands.dispatched} == {one.job_id for one in attempts}


def test_a_finished_attempt_that_was_not_taken_is_brought_to_its_job(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.finish(attempt)
    bench.advance(2)
    hands = sweep(bench)
    assert [job.outcome for job in hands.ends] == [Outcome.SUCCESS]
    assert hands.ends[0].output is not None
    assert bench.read(attempt) is None
    assert sweep(bench).ends == []


def test_a_failed_attempt_that_was_not_taken_fails_over(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.finish(attempt, failure())
    bench.advance(2)
    hands = sweep(bench)
    assert [job.job_id for job, _ in hands.dispatched] == [attempt.job_id]


def test_an_error_that_no_other_node_would_cure_ends_the_job(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    hopeless = ErrorInfo(code="INVALID_MESSAGE", message="Not audio.", retryable=False)
    bench.finish(attempt, failure(hopeless))
    bench.advance(2)
    assert [job.error for job in sweep(bench).ends] == [hopeless]


def fail_all_attempts(bench: Bench, times: int) -> JobRecord:
    node = bench.join("n-1")
    job_id = bench.new_job()
    for _ in range(times):
        attempt = bench.dispatch(node, job_id=job_id)
        bench.finish(attempt, failure())
        bench.retry(attempt)
        bench(bench.ledger.settle(attempt.cell, [attempt.attempt_id]))
    return bench.job(job_id)


def test_after_the_last_attempt_the_job_ends_also_when_its_driver_died(bench: Bench) -> None:
    job = fail_all_attempts(bench, TERMS.max_attempts)
    assert job.state is JobState.CREATED
    bench.advance(CLAIM_MS / 1000 + 1)
    hands = sweep(bench)
    assert hands.dispatched == []
    assert [ended.error.code for ended in hands.ends if ended.error] == ["ATTEMPTS_EXHAUSTED"]
    error = hands.ends[0].error
    assert error is not None
    assert error.details == {"last": "INTERNAL_ERROR"}


def test_before_the_last_attempt_the_job_goes_on(bench: Bench) -> None:
    fail_all_attempts(bench, TERMS.max_attempts - 1)
    bench.advance(CLAIM_MS / 1000 + 1)
    assert len(sweep(bench).dispatched) == 1


def test_a_job_whose_total_time_is_up_ends_and_its_attempt_is_cancelled(bench: Bench) -> None:
    job_id = bench.new_job()
    bench.advance(TOTAL_MS / 1000 - 10)
    node = bench.join("n-1")
    attempt = bench.dispatch(node, job_id=job_id)
    bench.ack(attempt)
    bench.advance(11)
    hands = sweep(bench)
    ended = bench.job(attempt.job_id)
    assert (ended.state, ended.outcome) == (JobState.FINISHED, Outcome.FAILED)
    assert ended.error is not None
    assert ended.error.code == "JOB_TIMEOUT"
    assert [won.job_id for won in hands.told] == [job_id]
    assert hands.dispatched == []
    assert bench.held(node) == 1


def test_a_waiting_live_job_ends_when_its_time_is_up(bench: Bench) -> None:
    job_id = bench.new_job()
    for _ in range(16):
        bench.advance(4)
        bench(bench.ledger.renew_claims([job_id], bench.job(job_id).claimed_by, claim_ms=CLAIM_MS))
    assert [job.job_id for job in sweep(bench).ends] == [job_id]


def test_a_cancel_that_was_won_is_brought_to_the_job_when_the_winner_died(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    wanted, unwanted = bench.dispatch(node), bench.dispatch(node)
    too_slow = ErrorInfo(code="JOB_TIMEOUT", message="Too slow.")
    assert isinstance(bench.cancel(wanted, too_slow), CancelWon)
    assert isinstance(bench.cancel(unwanted, CANCELLED), CancelWon)
    bench.advance(GRACE_MS / 1000 + 1)
    hands = sweep(bench)
    assert [job.job_id for job, _ in hands.dispatched] == [wanted.job_id]
    assert [(job.job_id, job.outcome) for job in hands.ends] == [
        (unwanted.job_id, Outcome.CANCELLED)
    ]
    assert {record.attempt_id for record in hands.asked} == {
        wanted.attempt_id,
        unwanted.attempt_id,
    }


def test_the_nodes_report_decides_about_a_cancelled_attempt(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.cancel(attempt)
    bench.advance(GRACE_MS / 1000 + 1)
    sweep(bench, ReportingHands(bench.ledger, LEASE_MS))
    assert bench.held(node) == 0


def test_a_cancelled_attempt_on_a_silent_node_does_not_hold_its_slot_for_ever(
    bench: Bench,
) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    bench.cancel(attempt)
    for _ in range(3):
        bench.advance(LEASE_MS / 1000)
        sweep(bench)
    assert bench.held(node) == 0


def test_batch_work_that_was_preempted_by_a_dead_instance_waits_again(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = bench.dispatch(node, job_class=JobClass.BATCH)
    bench(bench.ledger.preempt(bench.ask(bench.new_job(), node, max_preemptions=3)))
    bench.advance(GRACE_MS / 1000 + 1)
    hands = sweep(bench)
    assert victim.job_id in {job.job_id for job, _ in hands.dispatched}
    job = bench.job(victim.job_id)
    assert (job.state, job.preemptions, job.attempts_used) == (JobState.CREATED, 1, 0)


def test_batch_work_whose_cell_forgot_its_attempt_waits_again(bench: Bench) -> None:
    node = bench.join("n-1")
    victim = bench.dispatch(node, job_class=JobClass.BATCH)
    bench.cancel(victim)
    bench.finish(victim)
    bench(bench.ledger.settle(victim.cell, [victim.attempt_id]))
    bench.advance(TOTAL_MS / 1000 + 1)
    hands = sweep(bench)
    assert [job.job_id for job, _ in hands.dispatched] == [victim.job_id]
    assert bench.job(victim.job_id).state is JobState.CREATED


def test_a_cancel_that_no_node_answers_is_told_again(bench: Bench) -> None:
    attempt = bench.dispatch(bench.join("n-1"))
    bench.cancel(attempt)
    bench.advance(GRACE_MS / 1000 + 1)
    hands = sweep(bench)
    assert [won.job_id for won in hands.told] == [attempt.job_id]
    assert [asked.attempt_id for asked in hands.asked] == [attempt.attempt_id]


def test_a_node_is_told_to_stop_when_its_job_has_gone_on_already(bench: Bench) -> None:
    class Watchful(RecordingHands):
        async def tell_cancel(self, won: CancelWon, attempt: AttemptRecord) -> None:
            await super().tell_cancel(won, attempt)
            job = await bench.ledger.read(won.job_id)
            assert job is not None
            assert job.current is None, "the node's answer would make its cell forget the attempt"

    attempt = bench.dispatch(bench.join("n-1"))
    bench.advance(ACK_MS / 1000 + 1)
    hands = sweep(bench, Watchful())
    assert [won.job_id for won in hands.told] == [attempt.job_id]


def test_what_cannot_be_seen_to_does_not_hold_up_the_rest(bench: Bench) -> None:
    class Clumsy(RecordingHands):
        async def dispatch(self, job: JobRecord, job_input: JobInput) -> None:
            if job.job_id == bad:
                raise ValueError("dropped")
            await super().dispatch(job, job_input)

    bad, *good = [bench.new_job(f"r{number}") for number in range(25)]
    bench.advance(CLAIM_MS / 1000 + 1)
    hands = Clumsy()
    with pytest.raises(ValueError, match="dropped"):
        sweep(bench, hands)
    assert {job.job_id for job, _ in hands.dispatched} == set(good)


def test_two_sweepers_at_once_bring_each_job_to_one_end(bench: Bench) -> None:
    node = bench.join("n-1", slots=10)
    attempts = [bench.dispatch(node) for _ in range(10)]
    for number, attempt in enumerate(attempts):
        if number % 2:
            bench.finish(attempt)
    bench.advance(ACK_MS / 1000 + 1)
    hands = RecordingHands()
    sweepers = [Sweeper(bench.ledger, hands, TERMS, THERE) for _ in range(2)]
    bench.together(*(sweeper.sweep(CELLS, range(JOB_SHARDS)) for sweeper in sweepers))
    again = [job.job_id for job, _ in hands.dispatched]
    assert sorted(again) == sorted(one.job_id for one in attempts[::2])
    assert {job.job_id for job in hands.ends} == {one.job_id for one in attempts[1::2]}
    for attempt in attempts[::2]:
        fresh = bench.reserve(bench.ask(attempt.job_id, node))
        assert bench.bind(fresh) == Bound(2)
