"""A session's record: one owner, utterances in their order, numbers without gaps."""

from __future__ import annotations

import msgspec
import pytest
from tests.contract.shared.bench import (
    HERE,
    KEEP,
    KEEP_DELIVERED,
    REFUSED,
    SESSION_MS,
    THERE,
    Bench,
    failure,
)

from dragoman.ids import new_id
from dragoman.live.protocol import Outcome
from dragoman.live.shared import records as r


def seen(held: r.Holding, revision: int) -> r.Holding:
    return msgspec.structs.replace(held, seen=revision)


def delivery(job: r.NewJob, index: int) -> r.Delivery:
    return r.Delivery(index, job.target_key, job.job_id)


def delivered(bench: Bench, held: r.Holding, count: int) -> list[r.NewJob]:
    """Utterances that were opened and delivered, one after the other."""
    jobs = []
    for index in range(count):
        opening = bench.utterance(held, index)
        bench.open(opening)
        assert bench.close(opening.jobs[0], held=held, index=index).seq == index + 1
        jobs.append(opening.jobs[0])
    return jobs


# --- opening utterances -------------------------------------------------------------------------


def test_an_utterance_moves_the_session_on(bench: Bench) -> None:
    held = bench.begin("en", "fr")
    opening = bench.utterance(held, 0, "en", "fr", next_chunk_seq=17, half_sample=b"h")
    opened = bench.open(opening)
    assert opened.jobs == (r.JobOpened(), r.JobOpened())
    session = bench.session(held)
    assert (session.next_index, session.next_chunk_seq, session.half_sample) == (1, 17, b"h")
    assert session.open == tuple(
        r.OpenUtterance(0, job.target_key, job.job_id) for job in opening.jobs
    )
    assert opened.revision == session.revision > held.seen


def test_an_utterance_opened_again_finds_its_jobs_and_changes_nothing(bench: Bench) -> None:
    held = bench.begin()
    opening = bench.utterance(held, 0, next_chunk_seq=17)
    revision = bench.open(opening).revision
    session = bench.session(held)
    again = bench.open(opening)
    assert again.jobs == (r.JobFound(bench.job(opening.jobs[0].job_id), same_body=True),)
    assert again.revision == revision
    assert bench.session(held) == session


def test_of_two_utterances_that_end_in_one_chunk_the_later_place_is_kept(bench: Bench) -> None:
    held = bench.begin()
    bench.open(bench.utterance(held, 0, next_chunk_seq=4, half_sample=b"1"))
    bench.open(bench.utterance(held, 1, next_chunk_seq=4, half_sample=b"2"))
    session = bench.session(held)
    assert (session.next_chunk_seq, session.half_sample) == (4, b"2")


def test_chunks_of_silence_need_not_be_sent_again(bench: Bench) -> None:
    held = bench.begin()
    bench.open(bench.utterance(held, 0, next_chunk_seq=4, half_sample=b"1"))
    revision = bench(bench.ledger.acknowledge(held, 0, 90, b"3"))
    session = bench.session(held)
    assert (session.next_chunk_seq, session.half_sample) == (90, b"3")
    assert session.revision == revision
    assert session.next_index == 1
    # An earlier place comes too late, and nothing is written.
    assert bench(bench.ledger.acknowledge(held, 0, 80, b"9")) == revision
    assert bench.session(held) == session
    bench.open(bench.utterance(held, 1, next_chunk_seq=97))
    assert bench.session(held).next_chunk_seq == 97
    assert bench(bench.ledger.acknowledge(seen(held, 99), 0, 200, b"")) == 0


def test_an_utterance_that_is_not_the_next_is_behind(bench: Bench) -> None:
    held = bench.begin()
    bench.open(bench.utterance(held, 0, next_chunk_seq=5))
    session = bench.session(held)
    skipping = bench.utterance(held, 2, next_chunk_seq=9)
    assert bench(bench.ledger.open(skipping)) == r.Behind(next_index=1, next_chunk_seq=5)
    assert bench.session(held) == session
    assert bench(bench.ledger.read(skipping.jobs[0].job_id)) is None


def test_an_earlier_utterance_with_unknown_jobs_is_behind(bench: Bench) -> None:
    held = bench.begin("en", "fr")
    bench.open(bench.utterance(held, 0, "en"))
    other = bench.utterance(held, 0, "en", "fr")
    assert bench(bench.ledger.open(other)) == r.Behind(next_index=1, next_chunk_seq=0)
    assert bench(bench.ledger.read(other.jobs[1].job_id)) is None


def test_an_opening_that_comes_after_the_delivery_changes_nothing(bench: Bench) -> None:
    held = bench.begin()
    opening = bench.utterance(held, 0)
    bench.open(opening)
    bench.close(opening.jobs[0], failure(), held=held)
    bench(bench.ledger.acknowledge(held, 1))
    session, job = bench.session(held), bench.job(opening.jobs[0].job_id)
    assert bench.open(opening).jobs == (r.JobFound(job, same_body=True),)
    assert bench.session(held) == session
    for _ in range(9):
        bench.advance((KEEP.retention_ms + KEEP.lease_ms) / 9_000 + 1)
        assert bench(bench.ledger.renew_sessions([held])) == ()
    assert bench(bench.ledger.open(opening)) == r.Behind(next_index=1, next_chunk_seq=0)
    assert bench(bench.ledger.read(job.job_id)) is None


def test_only_the_owner_opens_utterances(bench: Bench) -> None:
    held = bench.begin()
    owner = bench.take(held).owner
    opening = bench.utterance(held, 0)
    assert bench(bench.ledger.open(opening)) == r.NotOwner(owner)
    assert bench(bench.ledger.read(opening.jobs[0].job_id)) is None
    assert bench.session(held).next_index == 0


def test_a_session_that_is_not_there_has_no_owner(bench: Bench) -> None:
    session = bench.new_session()
    held = r.Holding(session.session_id, session.owner, 1)
    assert bench(bench.ledger.open(bench.utterance(held, 0))) == r.NotOwner(None)
    assert bench(bench.ledger.deliver(held, ())) == r.NotOwner(None)
    assert bench(bench.ledger.acknowledge(held, 1)) == 0


def test_a_record_older_than_its_writer_knows_is_not_written_to(bench: Bench) -> None:
    held = bench.begin()
    ahead = seen(held, held.seen + 1)
    assert bench(bench.ledger.open(bench.utterance(ahead, 0))) == r.NotOwner(held.owner)
    assert bench(bench.ledger.deliver(ahead, ())) == r.NotOwner(held.owner)
    assert bench(bench.ledger.acknowledge(ahead, 1)) == 0
    assert bench(bench.ledger.renew_sessions([ahead, held])) == (held.session_id,)


def test_a_refused_utterance_is_delivered_as_it_is_opened(bench: Bench) -> None:
    held = bench.begin("en", "fr")
    opening = bench.utterance(held, 0, "en", "fr", refused=["en"])
    assert bench.open(opening).jobs == (r.JobOpened(seq=1), r.JobOpened())
    session = bench.session(held)
    assert [sent.delivery for sent in session.unacknowledged] == [delivery(opening.jobs[0], 0)]
    assert [each.target for each in session.open] == ["fr"]
    assert bench.job(opening.jobs[0].job_id).error == REFUSED


def test_a_refused_utterance_waits_for_its_turn(bench: Bench) -> None:
    held = bench.begin()
    first, second = bench.utterance(held, 0), bench.utterance(held, 1, "en", refused=["en"])
    bench.open(first)
    assert bench.open(second).jobs == (r.JobOpened(seq=None),)
    assert bench.close(first.jobs[0], held=held).seq == 1
    assert bench.deliver(held, delivery(second.jobs[0], 1)) == (2,)


def test_a_job_in_another_shard_is_noted_in_its_session(bench: Bench) -> None:
    held = bench.begin()
    job = bench.open_job("named-by-the-client")
    note = r.OpenUtterance(0, job.target_key, job.job_id)
    opening = bench.opening(held=held, index=0, elsewhere=(note,), next_chunk_seq=3)
    opened, again = bench.open(opening), bench.open(opening)
    assert (again.jobs, again.revision) == (opened.jobs, opened.revision)
    session = bench.session(held)
    assert (session.open, session.next_index, session.next_chunk_seq) == ((note,), 1, 3)
    bench.close(job)
    assert bench.deliver(held, delivery(job, 0)) == (1,)


def test_a_job_opened_in_a_shard_that_is_not_its_own_is_a_mistake(bench: Bench) -> None:
    held = bench.begin()
    with pytest.raises(ValueError, match="shard"):
        bench(bench.ledger.open(bench.opening(bench.new_job("elsewhere"), held=held)))


# --- delivering ---------------------------------------------------------------------------------


def test_closing_delivers_when_the_turn_has_come(bench: Bench) -> None:
    held = bench.begin()
    first, second = bench.utterance(held, 0), bench.utterance(held, 1)
    bench.open(first)
    bench.open(second)
    early = bench.close(second.jobs[0], held=held, index=1)
    assert (early.seq, early.revision) == (None, bench.session(held).revision)
    assert bench.close(first.jobs[0], held=held, index=0).seq == 1
    assert bench.deliver(held, delivery(second.jobs[0], 1)) == (2,)
    session = bench.session(held)
    assert (session.open, session.next_seq, session.ended) == ((), 3, {"en": 1})


def test_targets_do_not_wait_for_each_other(bench: Bench) -> None:
    held = bench.begin("en", "fr")
    first, second = bench.utterance(held, 0, "en", "fr"), bench.utterance(held, 1, "en", "fr")
    bench.open(first)
    bench.open(second)
    assert bench.close(first.jobs[1], held=held, index=0).seq == 1
    assert bench.close(second.jobs[1], held=held, index=1).seq == 2
    assert bench.close(second.jobs[0], held=held, index=1).seq is None
    assert bench.close(first.jobs[0], held=held, index=0).seq == 3


def test_a_close_by_an_earlier_owner_ends_the_job_and_delivers_nothing(bench: Bench) -> None:
    held = bench.begin()
    opening = bench.utterance(held, 0)
    bench.open(opening)
    owner = bench.take(held)
    session = bench.session(held)
    closed = bench.close(opening.jobs[0], held=held)
    assert (closed.seq, closed.revision) == (None, 0)
    assert bench.session(held) == session
    assert bench.job(opening.jobs[0].job_id).outcome is Outcome.SUCCESS
    assert bench.deliver(owner, delivery(opening.jobs[0], 0)) == (1,)


def test_a_delivery_asked_again_gets_the_same_number(bench: Bench) -> None:
    held = bench.begin("en", "fr")
    opening = bench.utterance(held, 0, "en", "fr")
    bench.open(opening)
    for job in opening.jobs:
        bench.close(job)
    entries = [delivery(job, 0) for job in opening.jobs]
    first = bench(bench.ledger.deliver(held, entries))
    assert isinstance(first, r.Delivered)
    assert first.seqs == (1, 2)
    assert bench(bench.ledger.deliver(held, entries)) == first
    assert bench.deliver(held, entries[1]) == (2,)


def test_a_close_asked_again_does_not_deliver_again(bench: Bench) -> None:
    held = bench.begin()
    opening = bench.utterance(held, 0)
    bench.open(opening)
    bench.close(opening.jobs[0], held=held)
    session = bench.session(held)
    again = bench(bench.ledger.close(bench.closing(opening.jobs[0], held=held)))
    assert isinstance(again, r.HasEnded)
    assert bench.session(held) == session
    assert bench.deliver(held, delivery(opening.jobs[0], 0)) == (1,)


def test_a_delivery_whose_turn_has_not_come_gets_no_number(bench: Bench) -> None:
    held = bench.begin()
    first, second = bench.utterance(held, 0), bench.utterance(held, 1)
    bench.open(first)
    bench.open(second)
    unopened = r.Delivery(2, "en", None, "INPUT_TOO_LARGE")
    session = bench.session(held)
    assert bench.deliver(held, delivery(second.jobs[0], 1), unopened) == (None, None)
    assert bench.session(held) == session


def test_a_list_is_numbered_in_its_order(bench: Bench) -> None:
    held = bench.begin()
    openings = [bench.utterance(held, index) for index in range(3)]
    for opening in openings:
        bench.open(opening)
    entries = [delivery(opening.jobs[0], opening.index) for opening in openings]
    assert bench.deliver(held, *entries) == (1, 2, 3)


def test_a_reason_takes_the_turn_of_an_utterance_without_a_job(bench: Bench) -> None:
    held = bench.begin()
    bench.open(bench.opening(held=held, index=0))
    reason = r.Delivery(0, "en", None, "INPUT_TOO_LARGE")
    assert bench.deliver(held, reason) == (1,)
    assert bench.deliver(held, reason) == (1,)
    assert bench.session(held).unacknowledged == (r.SentDelivery(1, reason),)
    bench(bench.ledger.acknowledge(held, 1))
    assert bench.deliver(held, reason) == (0,)


def test_what_was_acknowledged_is_not_delivered_again(bench: Bench) -> None:
    held = bench.begin()
    jobs = delivered(bench, held, 2)
    revision = bench(bench.ledger.acknowledge(held, 1))
    assert revision == bench.session(held).revision
    assert [sent.seq for sent in bench.session(held).unacknowledged] == [2]
    assert bench(bench.ledger.acknowledge(held, 1)) == revision
    assert bench.deliver(held, delivery(jobs[0], 0), delivery(jobs[1], 1)) == (0, 2)
    assert bench.session(held).next_seq == 3


def test_only_the_owner_delivers_and_acknowledges(bench: Bench) -> None:
    held = bench.begin()
    opening = bench.utterance(held, 0)
    bench.open(opening)
    owner = bench.take(held).owner
    session = bench.session(held)
    answer = bench(bench.ledger.deliver(held, [delivery(opening.jobs[0], 0)]))
    assert answer == r.NotOwner(owner)
    assert bench(bench.ledger.acknowledge(held, 1)) == 0
    assert bench.session(held) == session


def test_of_deliveries_that_are_not_acknowledged_the_oldest_keep_their_number_only(
    bench: Bench,
) -> None:
    held = bench.begin()
    jobs = delivered(bench, held, KEEP_DELIVERED + 2)
    sent = bench.session(held).unacknowledged
    assert [each.seq for each in sent] == list(range(1, KEEP_DELIVERED + 3))
    marks = [each.delivery.reason for each in sent if each.delivery.job_id is None]
    assert marks == [r.DROPPED, r.DROPPED]
    assert bench.deliver(held, delivery(jobs[0], 0)) == (1,)


# --- owners -------------------------------------------------------------------------------------


def test_a_taken_session_has_a_new_owner(bench: Bench) -> None:
    held = bench.begin()
    connection_id = bench.connection_id()
    taken = bench(bench.ledger.take_session(held.session_id, THERE, connection_id))
    assert isinstance(taken, r.TakenSession)
    assert taken.before == held.owner
    assert taken.session.owner == r.SessionOwner(THERE, connection_id, held.owner.epoch + 1)
    assert taken.session == bench.session(held)
    assert bench(bench.ledger.take_session(held.session_id, THERE, connection_id)) == taken


def test_a_session_is_taken_from_the_owner_that_was_seen_only(bench: Bench) -> None:
    held = bench.begin()
    bench.take(held, epoch=held.owner.epoch)
    session = bench.session(held)
    late = bench.ledger.take_session(
        held.session_id, HERE, bench.connection_id(), epoch=held.owner.epoch
    )
    assert bench(late) == r.ChangedHands()
    assert bench.session(held) == session


def test_of_two_instances_that_take_a_session_one_wins(bench: Bench) -> None:
    held = bench.begin()
    answers = bench.together(
        *(
            bench.ledger.take_session(
                held.session_id, instance_id, bench.connection_id(), epoch=held.owner.epoch
            )
            for instance_id in (HERE, THERE)
        )
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["ChangedHands", "TakenSession"]


def test_a_session_that_is_not_there_cannot_be_taken(bench: Bench) -> None:
    session = bench.new_session()
    take = bench.ledger.take_session(session.session_id, HERE, bench.connection_id())
    assert bench(take) is None


def test_a_session_begun_again_stays_as_it_is(bench: Bench) -> None:
    session = bench.new_session()
    bench(bench.ledger.begin_session(session))
    held = r.Holding(session.session_id, session.owner, 1)
    bench.open(bench.utterance(held, 0))
    kept = bench.session(held)
    bench(bench.ledger.begin_session(session))
    assert bench.session(held) == kept


def test_a_record_that_is_gone_or_older_is_restored(bench: Bench) -> None:
    held = bench.begin()
    bench.open(bench.utterance(held, 0))
    whole = msgspec.structs.replace(bench.session(held), revision=40, next_index=9)
    for _ in range(2):
        assert bench(bench.ledger.restore_session(whole)) == 40
        assert bench.session(held) == whole
    bench(bench.ledger.end_session(held.session_id, held.owner))
    assert bench(bench.ledger.restore_session(whole)) == 40
    assert bench.session(held) == whole


def test_a_newer_record_stays_as_it_is(bench: Bench) -> None:
    held = bench.begin()
    old = bench.session(held)
    bench.open(bench.utterance(held, 0))
    kept = bench.session(held)
    assert bench(bench.ledger.restore_session(old)) == 0
    assert bench.session(held) == kept
    owner = bench.take(held).owner
    ahead = msgspec.structs.replace(old, revision=40)
    assert bench(bench.ledger.restore_session(ahead)) == 0
    assert bench.session(held).owner == owner


def test_a_session_ends_by_its_owner_only(bench: Bench) -> None:
    held = bench.begin()
    owner = bench.take(held).owner
    assert bench(bench.ledger.end_session(held.session_id, held.owner)) is False
    assert bench(bench.ledger.read_session(held.session_id)) is not None
    for _ in range(2):
        assert bench(bench.ledger.end_session(held.session_id, owner)) is True
    assert bench(bench.ledger.read_session(held.session_id)) is None


def test_a_session_lives_as_long_as_it_is_renewed_or_written(bench: Bench) -> None:
    held = bench.begin()
    for index in range(3):
        bench.advance(SESSION_MS / 1000 - 1)
        assert bench(bench.ledger.renew_sessions([held])) == ()
        bench.advance(SESSION_MS / 1000 - 1)
        bench.open(bench.utterance(held, index))
    bench.advance(SESSION_MS / 1000 + 1)
    assert bench(bench.ledger.read_session(held.session_id)) is None
    assert bench(bench.ledger.renew_sessions([held])) == (held.session_id,)


def test_renewing_tells_which_sessions_are_not_the_askers(bench: Bench) -> None:
    own, other = bench.begin(), bench.begin()
    bench.take(other)
    unknown = msgspec.structs.replace(own, session_id=new_id(bench.random, "s"))
    lost = bench(bench.ledger.renew_sessions([own, other, unknown]))
    assert set(lost) == {other.session_id, unknown.session_id}


# --- what was said last -------------------------------------------------------------------------


def test_what_was_said_last_is_kept_for_the_next_owner_and_goes_with_the_session(
    bench: Bench,
) -> None:
    held = bench.begin("en")
    ledger, session_id = bench.ledger, held.session_id
    assert bench(ledger.read_past(session_id)) == b""
    for written in (b"first", b"second" * 500):
        bench(ledger.keep_past(session_id, written))
        assert bench(ledger.read_past(session_id)) == written
    bench(ledger.take_session(session_id, THERE, held.owner.connection_id))
    assert bench(ledger.read_past(session_id)) == b"second" * 500
    owner = bench.session(held).owner
    assert bench(ledger.end_session(session_id, owner))
    assert bench(ledger.read_past(session_id)) == b""
