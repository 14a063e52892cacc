"""A job's life in its shard: opened once, moved by comparing, ended once, forgotten in time."""

from __future__ import annotations

import msgspec
from tests.contract.shared.bench import (
    CANCELLED,
    CLAIM_MS,
    FAILED,
    HERE,
    KEEP,
    REFUSED,
    TENANT,
    THERE,
    TOTAL_MS,
    Bench,
    failure,
    past,
    success,
)

from dragoman.ids import JobId, TenantId, shard_in
from dragoman.live.ledger import Ending
from dragoman.live.protocol import JobClass, Outcome
from dragoman.live.shared import records as r

CLAIM_SECONDS = CLAIM_MS / 1000
LEASE_SECONDS = KEEP.lease_ms / 1000


def due(bench: Bench, job: r.NewJob) -> tuple[JobId, ...]:
    shard = shard_in(job.job_id)
    assert shard is not None
    return tuple(found.job_id for found in bench(bench.ledger.due((shard,), 10)))


# --- opening ------------------------------------------------------------------------------------


def test_an_opened_job_names_its_attempt_and_its_driver(bench: Bench) -> None:
    new = bench.open_job(cell=7)
    job = bench.job(new.job_id)
    assert (job.attempt_id, job.cell, job.instance_id) == (new.attempt_id, 7, HERE)
    assert (job.spec, job.body_hash, job.outcome) == (new.spec, new.body_hash, None)
    assert job.claim_until_ms == job.created_ms + CLAIM_MS
    assert job.total_until_ms == job.created_ms + TOTAL_MS


def test_the_same_request_finds_the_same_job(bench: Bench) -> None:
    first = bench.open_job("r-1")
    again = bench.open(bench.opening(bench.new_job("r-1"))).jobs[0]
    assert again == r.JobFound(bench.job(first.job_id), same_body=True)


def test_another_body_for_the_same_request_is_told(bench: Bench) -> None:
    first = bench.open_job("r-1")
    other = bench.open(bench.opening(bench.new_job("r-1", body=b"other"))).jobs[0]
    assert isinstance(other, r.JobFound)
    assert (other.job.job_id, other.same_body) == (first.job_id, False)


def test_requests_of_two_tenants_do_not_meet(bench: Bench) -> None:
    bench.open_job("r-1")
    bench.open_job("r-1", tenant=TenantId("other"))


def test_the_same_opening_again_finds_its_jobs(bench: Bench) -> None:
    opening = bench.opening(bench.new_job("r-1", "en"), bench.new_job("r-1", "fr"))
    assert bench.open(opening).jobs == (r.JobOpened(), r.JobOpened())
    again = bench.open(opening).jobs
    assert [found.job.job_id for found in again if isinstance(found, r.JobFound)] == [
        job.job_id for job in opening.jobs
    ]


def test_two_instances_that_open_one_request_make_one_job(bench: Bench) -> None:
    openings = [
        bench.opening(bench.new_job("r-1"), instance_id=instance_id)
        for instance_id in (HERE, THERE)
    ]
    answers = bench.together(*(bench.ledger.open(opening) for opening in openings))
    kinds = [type(answer.jobs[0]) for answer in answers if isinstance(answer, r.Opened)]
    assert sorted(kind.__name__ for kind in kinds) == ["JobFound", "JobOpened"]


def test_a_success_answers_its_request_until_the_lease_ends(bench: Bench) -> None:
    first = bench.open_job("r-1")
    bench.close(first)
    bench.advance(LEASE_SECONDS - 1)
    found = bench.open(bench.opening(bench.new_job("r-1"))).jobs[0]
    assert isinstance(found, r.JobFound)
    assert found.job.job_id == first.job_id
    bench.advance(2)
    second = bench.open_job("r-1")
    assert bench.job(first.job_id).outcome is Outcome.SUCCESS
    assert bench.job(second.job_id).outcome is None


def test_a_failed_job_frees_its_request_and_stays_readable(bench: Bench) -> None:
    first = bench.open_job("r-1")
    bench.close(first, failure())
    second = bench.open_job("r-1")
    assert bench.job(first.job_id).outcome is Outcome.FAILED
    assert bench.job(second.job_id).outcome is None
    bench.close(second)
    assert bench.job(first.job_id).error == FAILED


def test_an_opening_that_comes_late_does_not_open_its_failed_job_again(bench: Bench) -> None:
    job = bench.new_job("r-1")
    opening = bench.opening(job)
    bench.open(opening)
    bench.close(job, failure())
    assert bench.open(opening).jobs == (r.JobFound(bench.job(job.job_id), same_body=True),)
    bench.open_job("r-1")
    assert bench.open(opening).jobs == (r.JobFound(bench.job(job.job_id), same_body=True),)


def test_a_refused_job_is_ended_as_it_is_opened(bench: Bench) -> None:
    new = bench.open_job(refused=REFUSED)
    job = bench.job(new.job_id)
    assert (job.outcome, job.error) == (Outcome.FAILED, REFUSED)
    assert bench(bench.ledger.read_open(new.job_id)) is None
    assert due(bench, new) == ()


# --- moving -------------------------------------------------------------------------------------


def test_a_job_moves_to_another_attempt_and_remembers_the_first(bench: Bench) -> None:
    new = bench.open_job()
    move = bench.moving(new, instance_id=THERE, ended=past(new), cell=3)
    assert isinstance(bench(bench.ledger.move(move)), r.MovedOn)
    job = bench.job(new.job_id)
    assert (job.attempt_id, job.cell, job.instance_id) == (move.attempt_id, 3, THERE)
    assert job.past == (past(new),)


def test_a_move_from_an_attempt_that_never_had_a_slot_leaves_no_past(bench: Bench) -> None:
    new = bench.open_job()
    bench(bench.ledger.move(bench.moving(new)))
    assert bench.job(new.job_id).past == ()


def test_the_same_move_again_answers_the_same_and_changes_nothing(bench: Bench) -> None:
    new = bench.open_job()
    move = bench.moving(new, ended=past(new), preempted=True)
    first = bench(bench.ledger.move(move))
    before = bench.job(new.job_id)
    assert bench(bench.ledger.move(move)) == first
    assert bench.job(new.job_id) == before
    assert before.preemptions == 1


def test_a_move_from_an_attempt_that_is_over_changes_nothing(bench: Bench) -> None:
    new = bench.open_job()
    late = bench.moving(new)
    bench(bench.ledger.move(bench.moving(new)))
    job = bench.job(new.job_id)
    assert bench(bench.ledger.move(late)) == r.NotCurrent(job)
    assert bench.job(new.job_id) == job


def test_of_two_moves_at_the_same_time_one_wins(bench: Bench) -> None:
    new = bench.open_job()
    moves = [bench.moving(new), bench.moving(new, instance_id=THERE)]
    answers = bench.together(*(bench.ledger.move(move) for move in moves))
    assert sorted(type(answer).__name__ for answer in answers) == ["MovedOn", "NotCurrent"]


def test_a_job_that_ended_or_is_unknown_does_not_move(bench: Bench) -> None:
    new = bench.open_job()
    bench.close(new)
    assert bench(bench.ledger.move(bench.moving(new))) == r.HasEnded(bench.job(new.job_id))
    assert bench(bench.ledger.move(bench.moving(bench.new_job()))) == r.NoJob()


def test_the_time_of_batch_work_begins_with_its_dispatch(bench: Bench) -> None:
    new = bench.open_job(job_class=JobClass.BATCH)
    assert bench.job(new.job_id).total_until_ms is None
    moved = bench(bench.ledger.move(bench.moving(new, total_ms=TOTAL_MS)))
    assert isinstance(moved, r.MovedOn)
    assert bench.job(new.job_id).total_until_ms == moved.at_ms + TOTAL_MS


# --- closing ------------------------------------------------------------------------------------


def test_a_closed_job_has_its_end(bench: Bench) -> None:
    new = bench.open_job()
    closing = bench.closing(new)
    closed = bench(bench.ledger.close(closing))
    assert isinstance(closed, r.Closed)
    assert (closed.seq, closed.revision) == (None, 0)
    job = bench.job(new.job_id)
    assert (job.outcome, job.output) == (Outcome.SUCCESS, closing.ending.output)
    assert (job.times, job.node_id, job.released) == (closing.times, closing.node_id, False)
    assert bench(bench.ledger.read_open(new.job_id)) is None


def test_a_job_ends_once(bench: Bench) -> None:
    new = bench.open_job()
    closing = bench.closing(new)
    bench(bench.ledger.close(closing))
    job = bench.job(new.job_id)
    assert bench(bench.ledger.close(closing)) == r.HasEnded(job)
    other = bench.closing(new, Ending(Outcome.CANCELLED, error=CANCELLED), attempt_id=None)
    assert bench(bench.ledger.close(other)) == r.HasEnded(job)
    assert bench.job(new.job_id) == job


def test_a_close_from_another_attempt_changes_nothing(bench: Bench) -> None:
    new = bench.open_job()
    bench(bench.ledger.move(bench.moving(new)))
    job = bench.job(new.job_id)
    assert bench(bench.ledger.close(bench.closing(new))) == r.NotCurrent(job)
    assert bench.job(new.job_id) == job


def test_a_cancel_ends_the_job_whatever_its_attempt(bench: Bench) -> None:
    new = bench.open_job()
    bench(bench.ledger.move(bench.moving(new)))
    bench.close(new, Ending(Outcome.CANCELLED, error=CANCELLED), attempt_id=None)
    assert bench.job(new.job_id).outcome is Outcome.CANCELLED


def test_the_attempt_that_a_job_outlived_is_kept_behind_the_earlier_ones(bench: Bench) -> None:
    new = bench.open_job()
    first = past(new)
    move = bench.moving(new, ended=first)
    bench(bench.ledger.move(move))
    last = msgspec.structs.replace(first, attempt_id=move.attempt_id)
    closing = bench.closing(new, failure(), attempt_id=move.attempt_id)
    bench(bench.ledger.close(msgspec.structs.replace(closing, node_id=None, last=last)))
    assert bench.job(new.job_id).past == (first, last)


def test_of_two_ends_at_the_same_time_one_wins(bench: Bench) -> None:
    new = bench.open_job()
    closings = (bench.closing(new), bench.closing(new, failure(), attempt_id=None))
    answers = bench.together(*(bench.ledger.close(closing) for closing in closings))
    assert sorted(type(answer).__name__ for answer in answers) == ["Closed", "HasEnded"]


def test_an_unknown_job_cannot_be_closed(bench: Bench) -> None:
    assert bench(bench.ledger.close(bench.closing(bench.new_job()))) == r.NoJob()


# --- claims -------------------------------------------------------------------------------------


def test_a_job_is_due_when_its_claim_has_run_out(bench: Bench) -> None:
    new = bench.open_job()
    bench.advance(CLAIM_SECONDS - 1)
    assert due(bench, new) == ()
    bench.advance(2)
    assert due(bench, new) == (new.job_id,)


def test_a_renewed_job_is_not_due(bench: Bench) -> None:
    jobs = [bench.open_job("r-1", "en"), bench.open_job("r-1", "fr")]
    names = [job.job_id for job in jobs]
    for _ in range(3):
        bench.advance(CLAIM_SECONDS - 1)
        assert bench(bench.ledger.renew(names, HERE, claim_ms=CLAIM_MS)) == ()
        assert due(bench, jobs[0]) == ()


def test_renewing_tells_which_jobs_are_no_longer_the_askers(bench: Bench) -> None:
    own, ended = bench.open_job("r-1", "en"), bench.open_job("r-1", "fr")
    gone, other = bench.new_job("r-1", "de"), bench.open_job("r-1", "it")
    bench.close(ended)
    bench(bench.ledger.move(bench.moving(other, instance_id=THERE)))
    names = [job.job_id for job in (own, ended, gone, other)]
    lost = bench(bench.ledger.renew(names, HERE, claim_ms=CLAIM_MS))
    assert set(lost) == {ended.job_id, gone.job_id, other.job_id}


def test_a_renewed_job_is_due_when_its_time_is_up(bench: Bench) -> None:
    new = bench.open_job()
    bench.advance(TOTAL_MS / 1000 + 1)
    bench(bench.ledger.renew([new.job_id], HERE, claim_ms=CLAIM_MS))
    assert due(bench, new) == (new.job_id,)


def test_a_job_whose_claim_ran_out_is_taken_over_with_its_input(bench: Bench) -> None:
    new = bench.open_job()
    bench.advance(CLAIM_SECONDS + 1)
    taken = bench.take_over(new)
    assert isinstance(taken, r.TakenOver)
    assert taken.work.input == new.input
    assert taken.work.job == bench.job(new.job_id)
    assert taken.work.job.instance_id == THERE
    assert due(bench, new) == ()
    assert bench(bench.ledger.renew([new.job_id], HERE, claim_ms=CLAIM_MS)) == (new.job_id,)


def test_a_job_that_is_driven_is_not_taken_over(bench: Bench) -> None:
    new = bench.open_job()
    assert bench.take_over(new) == r.StillDriven(bench.job(new.job_id))
    assert isinstance(bench.take_over(new, HERE), r.TakenOver)


def test_of_two_instances_that_take_a_job_over_one_wins(bench: Bench) -> None:
    new = bench.open_job()
    bench.advance(CLAIM_SECONDS + 1)
    ledger = bench.ledger
    answers = bench.together(
        *(
            ledger.take_over(new.job_id, new.attempt_id, instance_id, claim_ms=CLAIM_MS)
            for instance_id in (HERE, THERE)
        )
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["StillDriven", "TakenOver"]


def test_a_take_over_asked_again_answers_the_same(bench: Bench) -> None:
    new = bench.open_job()
    bench.advance(CLAIM_SECONDS + 1)
    assert bench.take_over(new) == bench.take_over(new)


def test_a_take_over_that_saw_an_older_attempt_changes_nothing(bench: Bench) -> None:
    new = bench.open_job()
    bench(bench.ledger.move(bench.moving(new)))
    bench.advance(CLAIM_SECONDS + 1)
    assert bench.take_over(new) == r.NotCurrent(bench.job(new.job_id))


def test_an_ended_or_unknown_job_is_not_taken_over(bench: Bench) -> None:
    new = bench.open_job()
    bench.close(new)
    assert bench.take_over(new) == r.HasEnded(bench.job(new.job_id))
    assert bench.take_over(bench.new_job()) == r.NoJob()


# --- reading and forgetting ---------------------------------------------------------------------


def test_an_open_job_is_read_with_its_input(bench: Bench) -> None:
    new = bench.open_job()
    work = bench(bench.ledger.read_open(new.job_id))
    assert work == r.OpenWork(bench.job(new.job_id), new.input)


def test_a_name_that_is_no_job_id_is_not_found(bench: Bench) -> None:
    assert bench(bench.ledger.read(JobId("nothing"))) is None
    assert bench(bench.ledger.read_open(JobId("nothing"))) is None


def test_the_newest_jobs_of_a_tenant_come_first(bench: Bench) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(bench.open_job())
        bench.advance(1)
    bench.open_job(tenant=TenantId("other"))
    newest = bench(bench.ledger.recent(TENANT, 2))
    assert [job.job_id for job in newest] == [jobs[2].job_id, jobs[1].job_id]
    last = newest[-1]
    older = bench(bench.ledger.recent(TENANT, 2, (last.created_ms, last.job_id)))
    assert [job.job_id for job in older] == [jobs[0].job_id]


def test_a_payload_stays_for_the_retention_and_the_record_a_lease_longer(bench: Bench) -> None:
    new = bench.open_job()
    bench.close(new)
    bench.advance(KEEP.retention_ms / 1000 - 1)
    assert bench.job(new.job_id).output is not None
    bench.advance(2)
    job = bench.job(new.job_id)
    assert (job.released, job.output, job.outcome) == (True, None, Outcome.SUCCESS)
    bench.advance(LEASE_SECONDS)
    assert bench(bench.ledger.read(new.job_id)) is None
    assert bench(bench.ledger.recent(TENANT, 10)) == ()


def test_a_released_payload_goes_when_the_lease_of_its_request_ends(bench: Bench) -> None:
    new = bench.open_job()
    bench.close(new)
    bench(bench.ledger.release([new.job_id, JobId("nothing")]))
    bench.advance(LEASE_SECONDS - 1)
    assert bench.job(new.job_id).output is not None
    bench.advance(2)
    job = bench.job(new.job_id)
    assert (job.released, job.output) == (True, None)


def test_an_open_job_cannot_be_released(bench: Bench) -> None:
    new = bench.open_job()
    bench(bench.ledger.release([new.job_id]))
    bench.close(new, success(new.job_id, new.attempt_id))
    bench.advance(LEASE_SECONDS + 1)
    assert not bench.job(new.job_id).released


def test_nothing_is_left_of_a_job_in_the_end(bench: Bench) -> None:
    bench.close(bench.open_job())
    bench.close(bench.open_job(), failure())
    bench.advance((KEEP.retention_ms + KEEP.lease_ms) / 1000 + 1)
    assert not any(bench(bench.ledger.size()).values())
