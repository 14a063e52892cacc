"""A request binds one job, for as long as the rules say."""

from __future__ import annotations

import pytest
from tests.contract.ledger.bench import FAILED, HERE, KEEP, THERE, Bench, failure, success

from dragoman.ids import JobId, RequestId, TenantId
from dragoman.live.ledger import (
    BodyConflict,
    Claimed,
    Ended,
    Ending,
    Existing,
    JobGone,
)
from dragoman.live.protocol import JobState, Outcome


def test_a_new_request_makes_a_created_job_that_remembers_what_was_asked(bench: Bench) -> None:
    claim = bench.claim("r-1")
    claimed = bench(bench.ledger.claim(claim))
    assert isinstance(claimed, Claimed)
    job = bench.job(claimed.job_id)
    assert (job.state, job.spec, job.claimed_by) == (JobState.CREATED, claim.spec, HERE)
    assert job.created_at_ms == claimed.at_ms
    assert bench(bench.ledger.read_input(claimed.job_id)) == claim.input


def test_the_same_request_finds_the_same_job_while_it_is_unfinished(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node, job_id=bench.new_job("r-1"))
    bench.advance(3_600)
    again = bench(bench.ledger.claim(bench.claim("r-1", instance_id=THERE)))
    assert isinstance(again, Existing)
    assert again.job.job_id == attempt.job_id
    assert again.job.claimed_by == HERE


def test_requests_at_the_same_time_make_one_job(bench: Bench) -> None:
    claims = (bench.ledger.claim(bench.claim("r-1")) for _ in range(20))
    answers = bench.together(*claims)
    made = [answer for answer in answers if isinstance(answer, Claimed)]
    found = [answer.job.job_id for answer in answers if isinstance(answer, Existing)]
    assert len(made) == 1
    assert found == [made[0].job_id] * 19


@pytest.mark.parametrize(
    "other",
    [{"request": "r-2"}, {"tenant": TenantId("other")}, {"tgt_lang": "fr"}],
    ids=["request", "tenant", "target"],
)
def test_another_request_tenant_or_target_is_another_job(
    bench: Bench, other: dict[str, str]
) -> None:
    first = bench.new_job("r-1")
    assert bench.new_job(**{"request": "r-1", **other}) != first


def test_the_same_request_with_another_body_conflicts(bench: Bench) -> None:
    job_id = bench.new_job("r-1", body=b"one")
    answer = bench(bench.ledger.claim(bench.claim("r-1", body=b"two")))
    assert answer == BodyConflict(job_id)


def test_after_success_a_retry_inside_the_lease_returns_the_same_job(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node, job_id=bench.new_job("r-1"))
    ending = success(attempt)
    bench.end(attempt.job_id, attempt.attempt_id, ending)
    bench.advance(KEEP.lease_ms / 1000 - 1)
    answer = bench(bench.ledger.claim(bench.claim("r-1")))
    assert isinstance(answer, Existing)
    assert (answer.job.job_id, answer.job.output) == (attempt.job_id, ending.output)
    conflict = bench(bench.ledger.claim(bench.claim("r-1", body=b"other")))
    assert conflict == BodyConflict(attempt.job_id)


def test_after_the_lease_the_request_makes_a_new_job(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node, job_id=bench.new_job("r-1"))
    bench.end(attempt.job_id, attempt.attempt_id, success(attempt))
    bench.advance(KEEP.lease_ms / 1000 + 1)
    assert bench.new_job("r-1", body=b"another") != attempt.job_id
    assert bench.job(attempt.job_id).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED])
def test_a_refusal_failure_or_cancel_frees_the_request_at_once(
    bench: Bench, outcome: Outcome
) -> None:
    job_id = bench.new_job("r-1", body=b"one")
    bench.end(job_id, None, Ending(outcome, error=FAILED))
    assert bench.new_job("r-1", body=b"two") != job_id
    ended = bench.job(job_id)
    assert (ended.state, ended.outcome, ended.error) == (JobState.FINISHED, outcome, FAILED)


def test_a_job_that_ended_does_not_unbind_the_one_that_followed_it(bench: Bench) -> None:
    first = bench.new_job("r-1")
    bench.end(first, None, failure())
    second = bench.new_job("r-1")
    bench(bench.ledger.release([first]))
    bench.advance(3_600)
    bench(bench.ledger.due_jobs(range(256), 1_000))
    answer = bench(bench.ledger.claim(bench.claim("r-1")))
    assert isinstance(answer, Existing)
    assert answer.job.job_id == second


def test_a_job_gets_one_end_and_repeats_tell_it(bench: Bench) -> None:
    node = bench.join("n-1")
    attempt = bench.dispatch(node)
    first = bench.end(attempt.job_id, attempt.attempt_id, success(attempt))
    assert isinstance(first, Ended)
    bench.advance(1)
    assert bench.end(attempt.job_id, attempt.attempt_id, failure()) == first
    assert bench.end(attempt.job_id, None, failure()) == first


def test_a_job_is_read_with_the_time_that_its_own_times_compare_with(bench: Bench) -> None:
    job_id = bench.new_job()
    for seconds in (0, 3):
        bench.advance(seconds)
        found = bench(bench.ledger.read_open(job_id))
        assert found is not None
        age_ms = found.at_ms - found.job.created_at_ms
        assert seconds * 1000 <= age_ms <= seconds * 1000 + 2_000


def test_the_input_is_dropped_when_the_job_ends(bench: Bench) -> None:
    job_id = bench.new_job()
    found = bench(bench.ledger.read_open(job_id))
    assert found is not None
    assert (found.job, found.input) == (
        bench.job(job_id),
        bench(bench.ledger.read_input(job_id)),
    )
    bench.end(job_id, None, failure())
    assert bench(bench.ledger.read_input(job_id)) is None
    assert bench(bench.ledger.read_open(job_id)) is None


@pytest.mark.parametrize("text", ["", "j-", "j-00" + "f" * 24, "not a job", "j-zz" + "0" * 24])
def test_an_unknown_job_is_gone_whatever_is_asked_of_it(bench: Bench, text: str) -> None:
    job_id = JobId(text)
    assert bench(bench.ledger.read(job_id)) is None
    assert bench(bench.ledger.read_input(job_id)) is None
    assert bench(bench.ledger.read_open(job_id)) is None
    assert bench.end(job_id, None, failure()) == JobGone()
    assert bench(bench.ledger.take_over(job_id, HERE, claim_ms=1)) == JobGone()
    assert bench(bench.ledger.renew_claims([job_id], HERE, claim_ms=1)) == (job_id,)
    bench(bench.ledger.release([job_id]))


def test_a_request_of_any_text_is_bound_by_its_exact_text(bench: Bench) -> None:
    texts = ["a", "A", " a", "a\0", "请求", "{j00}", "a:b", "a/b", "*"]
    made = {text: bench.new_job(text) for text in texts}
    assert len(set(made.values())) == len(texts)
    for text, job_id in made.items():
        assert bench.job(job_id).spec.request_id == RequestId(text)
