"""One attempt is its job's current one; every other finds the door closed."""

from __future__ import annotations

from tests.contract.ledger.bench import (
    CLAIM_MS,
    FAILED,
    HERE,
    THERE,
    TOTAL_MS,
    Attempt,
    Bench,
    failure,
    success,
)

from dragoman.ids import JobId, NodeId, new_attempt_id
from dragoman.live.ledger import (
    Bound,
    Dropped,
    Ended,
    JobGone,
    NotBound,
    NotCurrent,
    Retrying,
    Sender,
    StillHeld,
)
from dragoman.live.protocol import JobClass, JobState, Outcome


def unheld(bench: Bench, job_id: JobId) -> Attempt:
    """An attempt as a job sees it; whether it holds a slot is not the job's business."""
    node_id = NodeId("n-1")
    return Attempt(job_id, new_attempt_id(bench.random), 0, node_id, Sender(node_id, 1))


def test_binding_makes_the_attempt_current(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    assert bench.bind(attempt) == Bound(1)
    job = bench.job(attempt.job_id)
    assert (job.state, job.current) == (JobState.DISPATCHED, attempt.attempt_id)
    assert job.current_attempt is not None
    assert (job.current_attempt.cell, job.current_attempt.node_id) == (0, attempt.node_id)


def test_of_two_binders_one_wins_and_the_loser_gives_its_slot_back(bench: Bench) -> None:
    node = bench.join("n-1", slots=2)
    job_id = bench.new_job()
    first, second = (bench.reserve(bench.ask(job_id, node)) for _ in range(2))
    assert bench.bind(first) == Bound(1)
    assert bench.bind(second) == NotBound(ended=False)
    assert isinstance(bench(bench.ledger.drop(second.cell, second.attempt_id)), Dropped)
    assert bench.held(node) == 1
    assert bench.job(job_id).current == first.attempt_id


def test_binders_at_the_same_time_leave_one_winner(bench: Bench) -> None:
    job_id = bench.new_job()
    tries = [unheld(bench, job_id) for _ in range(10)]
    answers = bench.together(
        *(
            bench.ledger.bind(job_id, one.attempt_id, one.cell, one.node_id, total_ms=None)
            for one in tries
        )
    )
    assert sum(isinstance(answer, Bound) for answer in answers) == 1


def test_binding_again_answers_the_same(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    assert bench.bind(attempt) == bench.bind(attempt) == Bound(1)
    assert len(bench.job(attempt.job_id).attempts) == 1


def test_an_ended_job_takes_no_attempt(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    bench.end(attempt.job_id, None, failure())
    assert bench.bind(attempt) == NotBound(ended=True)
    assert bench.bind(unheld(bench, JobId("j-" + "0" * 26))) == JobGone()


def test_after_a_failed_attempt_the_job_is_created_again_and_driven_by_the_asker(
    bench: Bench,
) -> None:
    attempt = unheld(bench, bench.new_job())
    bench.bind(attempt)
    answer = bench.retry(attempt, instance_id=THERE)
    assert isinstance(answer, Retrying)
    assert (answer.job.state, answer.job.current) == (JobState.CREATED, None)
    assert (answer.job.claimed_by, answer.job.attempts_used) == (THERE, 1)
    past = answer.job.attempts[0]
    assert (past.outcome, past.error) == (Outcome.FAILED, FAILED)
    assert bench.bind(unheld(bench, attempt.job_id)) == Bound(2)


def test_an_instance_that_sees_an_attempt_fail_may_leave_the_job_to_its_driver(
    bench: Bench,
) -> None:
    attempt = unheld(bench, bench.new_job())
    bench.bind(attempt)
    bench.advance(2 * CLAIM_MS / 1000)
    answer = bench.retry(attempt, instance_id=None)
    assert isinstance(answer, Retrying)
    assert (answer.job.state, answer.job.claimed_by) == (JobState.CREATED, HERE)
    taking_over = bench.ledger.take_over(attempt.job_id, THERE, claim_ms=CLAIM_MS)
    assert bench(taking_over) == StillHeld(HERE), "its driver has time to go on with it"


def test_an_attempt_that_failed_cannot_be_bound_again(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    bench.bind(attempt)
    bench.retry(attempt)
    assert bench.bind(attempt) == NotBound(ended=False)


def test_an_attempt_shut_out_before_it_was_bound_stays_out(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    assert isinstance(bench.retry(attempt), NotCurrent)
    assert bench.bind(attempt) == NotBound(ended=False)
    assert bench.job(attempt.job_id).attempts_used == 0


def test_an_old_attempt_neither_retries_nor_ends_the_job(bench: Bench) -> None:
    job_id = bench.new_job()
    old, new = unheld(bench, job_id), unheld(bench, job_id)
    bench.bind(old)
    bench.retry(old)
    bench.bind(new)
    before = bench.job(job_id)
    assert bench.retry(old) == NotCurrent(before)
    assert bench.end(job_id, old.attempt_id, success(old)) == NotCurrent(before)
    assert bench.end(job_id, None, failure()) == NotCurrent(before)
    assert bench.job(job_id) == before


def test_a_job_that_has_ended_is_not_retried(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    bench.bind(attempt)
    ended = bench.end(attempt.job_id, attempt.attempt_id, success(attempt))
    assert bench.retry(attempt) == ended
    assert isinstance(ended, Ended)
    assert ended.job.attempts[0].outcome is Outcome.SUCCESS


def test_a_job_without_an_attempt_goes_from_created_to_finished(bench: Bench) -> None:
    answer = bench.end(bench.new_job(), None, failure())
    assert isinstance(answer, Ended)
    assert (answer.job.state, answer.job.attempts) == (JobState.FINISHED, ())


def test_a_preemption_is_not_an_attempt_but_is_counted(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job(job_class=JobClass.BATCH))
    bench.bind(attempt, TOTAL_MS)
    answer = bench.retry(attempt, preempted=True)
    assert isinstance(answer, Retrying)
    assert (answer.job.attempts_used, answer.job.preemptions) == (0, 1)
    assert bench.bind(unheld(bench, attempt.job_id), TOTAL_MS) == Bound(1)


def test_a_live_jobs_time_runs_from_the_claim(bench: Bench) -> None:
    attempt = unheld(bench, bench.new_job())
    until = bench.job(attempt.job_id).total_until_ms
    assert until == bench.job(attempt.job_id).created_at_ms + TOTAL_MS
    bench.advance(10)
    bench.bind(attempt)
    bench.retry(attempt)
    assert bench.job(attempt.job_id).total_until_ms == until


def test_a_batch_jobs_time_runs_from_each_dispatch(bench: Bench) -> None:
    job_id = bench.new_job(job_class=JobClass.BATCH)
    assert bench.job(job_id).total_until_ms is None
    created = bench.job(job_id).created_at_ms
    for seconds in (100, 200):
        bench.advance(100)
        attempt = unheld(bench, job_id)
        bench.bind(attempt, TOTAL_MS)
        until = bench.job(job_id).total_until_ms
        assert until is not None
        assert abs(until - (created + seconds * 1000 + TOTAL_MS)) < 5_000
        bench.retry(attempt)
        assert bench.job(job_id).total_until_ms is None


def test_one_of_many_takes_over_a_job_whose_claim_ran_out(bench: Bench) -> None:
    job_id = bench.new_job()
    bench.advance(CLAIM_MS / 1000 + 1)
    answers = bench.together(
        *(bench.ledger.take_over(job_id, HERE, claim_ms=CLAIM_MS) for _ in range(5))
    )
    assert sum(type(answer).__name__ == "Taken" for answer in answers) == 1
