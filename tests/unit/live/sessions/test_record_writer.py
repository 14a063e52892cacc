"""A session's record is written one step at a time, and the client hears what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.unit.live.sessions.unreliable import (
    Unreliable,
    forget_everything,
    go_back,
    memory_of,
    shared_ledger,
)
from tests.unit.live.sessions.writing import THERE, Writing

from dragoman.ids import JobId
from dragoman.live.sessions.known_record import joined
from dragoman.live.sessions.record_writer import ACKNOWLEDGED_SECONDS, NO_JOB
from dragoman.live.shared import records as r
from dragoman.testing import VirtualClock, run_virtual


def play(story: Callable[[Writing], Awaitable[None]], *targets: str, seed: int = 1) -> None:
    async def main() -> None:
        random = Random(seed)
        clock = VirtualClock(asyncio.get_running_loop())
        shards = Unreliable(shared_ledger(clock, random), random)
        writing = Writing(shards, random, *targets)
        await writing.begin()
        await story(writing)

    run_virtual(main, seed=seed)


# --- one step at a time -------------------------------------------------------------------------


def test_acknowledgements_are_stored_together_and_keep_no_utterance_waiting() -> None:
    async def story(session: Writing) -> None:
        for number in range(4):
            session.say()
            await session.until_told(number + 1)
            session.writer.acknowledge(number + 1)
        assert "acknowledge" not in session.shards.calls
        await session.until_idle()
        assert session.shards.calls.count("acknowledge") == 1
        assert (await session.stored()).unacknowledged == ()
        session.writer.acknowledge(4)
        await asyncio.sleep(2 * ACKNOWLEDGED_SECONDS)
        assert session.shards.calls.count("acknowledge") == 1

    play(story)


def test_a_session_that_is_over_stores_no_acknowledgement() -> None:
    async def story(session: Writing) -> None:
        session.say()
        await session.until_told(1)
        session.writer.acknowledge(1)
        session.writer.stop()
        await asyncio.sleep(2 * ACKNOWLEDGED_SECONDS)
        assert "acknowledge" not in session.shards.calls

    play(story)


def test_an_utterance_is_opened_with_all_its_jobs_in_one_step() -> None:
    async def story(session: Writing) -> None:
        session.say(work=False)
        await session.until_idle()
        stored = await session.stored()
        assert session.shards.calls == ["open"]
        assert [(each.index, each.target) for each in stored.open] == [(0, "en"), (0, "es")]
        assert all(isinstance(answer, r.JobOpened) for answer in session.answers.values())
        assert session.writer.known() == stored

    play(story, "en", "es")


def test_chunks_are_stored_when_the_opening_is_answered_and_not_before() -> None:
    async def story(session: Writing) -> None:
        session.shards.longest_seconds = 1.0
        session.say(work=False)
        session.say(work=False)
        assert session.writer.next_chunk_seq == 0
        await session.until_idle()
        assert session.writer.next_chunk_seq == 2
        assert session.writer.known().half_sample == b"h"

    play(story)


def test_an_end_whose_closing_was_numbered_needs_no_step_of_its_own() -> None:
    async def story(session: Writing) -> None:
        for _ in range(3):
            session.say()
            await session.until_idle()
        await session.until_told(3)
        assert "deliver" not in session.shards.calls
        assert session.writer.known() == await session.stored()
        session.check_told()

    play(story)


def test_an_end_before_its_opening_is_answered_waits_for_it() -> None:
    async def story(session: Writing) -> None:
        session.shards.longest_seconds = 1.0
        session.say(without_job=("en", "es"))
        await session.until_told(2)
        assert session.shards.calls == ["open", "deliver"]
        assert (await session.stored()).open == ()

    play(story, "en", "es")


def test_an_utterance_without_a_job_is_open_until_the_reason_took_its_turn() -> None:
    """The next owner would not know of it otherwise, and never tell of its end."""

    async def story(session: Writing) -> None:
        session.shards.after = lambda name: setattr(session.shards, "is_away", name == "open")
        session.say(without_job=("en",))
        await asyncio.sleep(1)
        assert (await session.stored()).open == (r.OpenUtterance(0, "en", NO_JOB),)
        session.shards.is_away = False
        session.shards.after = lambda name: None
        await session.until_told(1)
        session.check_told()

    play(story)


def test_ends_that_wait_are_numbered_together() -> None:
    async def story(session: Writing) -> None:
        for _ in range(5):
            session.say(work=False)
        await session.until_idle()
        for index in reversed(range(5)):
            session.end(index, "en", None, "no node", 0)
        await session.until_told(5)
        assert session.shards.calls.count("deliver") == 1
        session.check_told()

    play(story)


def test_an_utterance_waits_for_its_job_in_another_shard_and_ends_do_not_wait_for_it() -> None:
    async def story(session: Writing) -> None:
        session.say(without_job=("en",), work=False)
        known = session.writer.elsewhere(1, "en")
        session.writer.open(1, ("en",), 2, b"")
        await session.until_told(1)
        assert (await session.stored()).next_index == 1
        known(JobId("j-00elsewhere"))
        await session.until_idle()
        assert (await session.stored()).open == (r.OpenUtterance(1, "en", JobId("j-00elsewhere")),)

    play(story)


def test_a_later_number_waits_for_an_earlier_one_whose_answer_was_lost() -> None:
    async def story(session: Writing) -> None:
        session.say(work=False)
        await session.until_idle()
        first, second = (r.Delivery(0, target, NO_JOB) for target in ("en", "es"))
        held = session.writer.holding
        answer = await session.shards.ledger.deliver(held, (first, second))
        assert isinstance(answer, r.Delivered)
        told: list[int] = []
        session.writer.deliver(second, told.append, 2)
        assert told == []
        session.writer.deliver(first, told.append)
        await session.until_idle()
        assert told == [1, 2]

    play(story, "en", "es")


def test_acknowledgements_are_stored() -> None:
    async def story(session: Writing) -> None:
        for _ in range(4):
            session.say(without_job=("en",))
        await session.until_told(4)
        session.writer.acknowledge(3)
        await session.until_idle()
        stored = await session.stored()
        assert [each.seq for each in stored.unacknowledged] == [4]
        assert session.writer.known() == stored

    play(story)


def test_what_is_not_acknowledged_is_bounded_as_the_record_is() -> None:
    async def story(session: Writing) -> None:
        for _ in range(200):
            session.say(without_job=("en",))
        await session.until_told(200)
        assert session.writer.known() == await session.stored()

    play(story)


# --- lost answers -------------------------------------------------------------------------------


def test_a_step_that_was_not_answered_is_asked_again_and_done_once() -> None:
    async def story(session: Writing) -> None:
        session.shards.is_away = True
        session.say()
        await asyncio.sleep(5)
        assert session.answers == {}
        session.shards.is_away = False
        await session.until_told(1)
        session.check_told()

    play(story)


def test_claims_of_a_session_that_is_over_are_answered_as_unknown() -> None:
    async def story(session: Writing) -> None:
        session.shards.is_away = True
        session.say(work=False)
        session.say(work=False)
        await asyncio.sleep(1)
        session.writer.stop()
        await asyncio.sleep(5)
        assert list(session.answers.values()) == [None, None]

    play(story)


def test_an_answer_that_is_on_its_way_when_the_session_ends_is_passed_on() -> None:
    async def story(session: Writing) -> None:
        session.shards.longest_seconds = 1.0
        session.say(work=False)
        session.say(work=False)
        await asyncio.sleep(0)
        session.writer.stop()
        await asyncio.sleep(5)
        first, second = session.answers[0, "en"], session.answers[1, "en"]
        assert isinstance(first, r.JobOpened)
        assert second is None

    play(story)


def test_a_listener_that_fails_does_not_stop_the_writer() -> None:
    async def story(session: Writing) -> None:
        job, new = session.new_job(0, "en")

        def fail(*_: Any) -> None:
            raise RuntimeError("a listener's own mistake")

        session.writer.claim(job, new, fail)
        session.writer.open(0, ("en",), 1, b"")
        session.next_index = 1
        session.say(work=False)
        await session.until_idle()
        assert session.writer.next_index == 2

    play(story)


def test_an_opening_that_the_ledger_cannot_take_leaves_an_utterance_without_a_job() -> None:
    async def story(session: Writing) -> None:
        job, new = session.new_job(0, "en")
        odd = r.NewJob(**{**_fields(new), "job_id": JobId("j-" + "0" * 34)})
        if session.session_id[2:4] == "00":
            odd = r.NewJob(**{**_fields(new), "job_id": JobId("j-01" + "0" * 32)})
        session.writer.claim(job, odd, session._claimed)
        session.writer.open(0, ("en",), 1, b"")
        session.next_index = 1
        session.say(work=False)
        await session.until_idle()
        assert session.answers[0, "en"] is None
        assert (await session.stored()).open[0].job_id == NO_JOB
        assert session.writer.next_index == 2

    play(story)


def _fields(new: r.NewJob) -> dict[str, Any]:
    return {name: getattr(new, name) for name in new.__struct_fields__}


# --- owners -------------------------------------------------------------------------------------


def test_a_session_that_another_connection_owns_is_let_go_of() -> None:
    async def story(session: Writing) -> None:
        session.say()
        await session.until_told(1)
        taken = await session.shards.ledger.take_session(
            session.session_id, THERE, session.connection_id()
        )
        assert isinstance(taken, r.TakenSession)
        session.say(work=False)
        await asyncio.sleep(1)
        assert session.lost_to == [taken.session.owner]
        assert session.answers[1, "en"] == r.NotOwner(taken.session.owner)
        assert (await session.stored()).next_index == 1

    play(story)


def test_a_client_that_comes_back_here_over_another_connection_goes_on() -> None:
    async def story(session: Writing) -> None:
        session.say()
        await session.until_told(1)
        connection_id = session.connection_id()
        session.writer.expect(connection_id)
        taken = await session.shards.ledger.take_session(
            session.session_id, session.start.owner.instance_id, connection_id
        )
        assert isinstance(taken, r.TakenSession)
        # The answer to the take is on its way, and the next step meets the new owner.
        session.say()
        await session.until_told(2)
        session.writer.own(taken.session.owner, taken.session.revision)
        session.say()
        await session.until_told(3)
        assert session.lost_to == []
        session.check_told()

    play(story)


def test_a_closing_under_an_older_owner_is_numbered_by_the_writer() -> None:
    async def story(session: Writing) -> None:
        session.say(work=False)
        await session.until_idle()
        connection_id = session.connection_id()
        session.writer.expect(connection_id)
        taken = await session.shards.ledger.take_session(
            session.session_id, session.start.owner.instance_id, connection_id
        )
        assert isinstance(taken, r.TakenSession)
        session.writer.own(taken.session.owner, taken.session.revision)
        session.writer.saw(0)
        session.end(0, "en", next(iter((await session.stored()).open)).job_id, None, 0)
        await session.until_told(1)
        assert session.restored == 0
        session.check_told()

    play(story)


# --- a record that is gone, or older ------------------------------------------------------------


def test_a_record_that_is_gone_is_written_again_where_the_client_is() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        for _ in range(3):
            session.say(without_job=("en",))
        session.say(work=False)
        await session.until_told(3)
        await session.until_idle()
        before = await session.stored()
        forget_everything(session.shards.ledger)
        assert await session.writer.check()
        after = await session.stored()
        assert after.revision > before.revision
        assert _without_revision(after) == _without_revision(before)
        assert session.writer.known() == after

    play(story)


def test_a_record_that_is_gone_is_not_written_again_while_the_client_is_away() -> None:
    """It may have ended its session elsewhere."""

    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        session.writer.client_left()
        forget_everything(session.shards.ledger)
        session.end(0, "en", None, "gone", 0)
        await asyncio.sleep(30)
        assert await session.shards.ledger.read_session(session.session_id) is None
        assert session.told == []
        assert session.shards.calls.count("read_session") < 5
        assert await session.writer.check(returning=True)
        session.writer.own(session.writer.owner, session.writer.seen)
        await session.until_told(1)

    play(story)


@pytest.mark.parametrize("acknowledges", [False, True])
def test_a_number_that_the_client_heard_is_never_given_to_another_end(acknowledges: bool) -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(without_job=("en",))
        await session.until_told(1)
        for _ in range(2):
            session.say(work=False)
        await session.until_idle()
        old = memory_of(session.shards.ledger)
        held = session.writer.holding
        session.end(1, "en", None, "no node", 0)
        await session.until_told(2)
        if acknowledges:
            session.writer.acknowledge(2)
            await session.until_idle()
        go_back(session.shards.ledger, old)
        # A step that was on its way all the time names no revision that is lost.
        entry = r.Delivery(1, "es", None, "no node")
        answer = await session.shards.ledger.deliver(held, (entry,))
        assert isinstance(answer, r.Delivered)
        (seq,) = answer.seqs
        told: list[int] = []
        assert seq is not None
        session.writer.deliver(entry, told.append, seq)
        await session.until_idle()
        assert told == [seq + 1]
        assert session.writer.known() == await session.stored()

    play(story)


def test_openings_that_were_lost_are_written_again_before_the_next_one() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        old = memory_of(session.shards.ledger)
        for _ in range(3):
            session.say(work=False)
        await session.until_idle()
        go_back(session.shards.ledger, old)
        session.say(work=False)
        await session.until_idle()
        assert [each.index for each in (await session.stored()).open] == [0, 1, 2, 3, 4]

    play(story)


def test_a_record_that_went_back_to_an_earlier_owner_is_taken_again() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        old = memory_of(session.shards.ledger)
        connection_id = session.connection_id()
        session.writer.expect(connection_id)
        taken = await session.shards.ledger.take_session(
            session.session_id, session.start.owner.instance_id, connection_id
        )
        assert isinstance(taken, r.TakenSession)
        session.writer.own(taken.session.owner, taken.session.revision)
        go_back(session.shards.ledger, old)
        session.say(work=False)
        await session.until_idle()
        stored = await session.stored()
        assert (stored.owner, stored.next_index) == (taken.session.owner, 2)

    play(story)


def test_a_number_from_before_the_record_was_written_again_is_asked_for_again() -> None:
    """The closing's answer was on its way while the record lost what the closing had stored."""

    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        entry = r.Delivery(0, "en", NO_JOB)
        answer = await session.shards.ledger.deliver(session.writer.holding, (entry,))
        assert isinstance(answer, r.Delivered)
        before = memory_of(session.shards.ledger)
        forget_everything(session.shards.ledger)
        assert before
        assert await session.writer.check()
        stored: list[int] = []
        told: list[int] = []
        ledger = session.shards.ledger

        def tell(seq: int) -> None:
            told.append(seq)
            shard = ledger._shard(session.session_id)[0]
            stored.append(shard.sessions[session.session_id].next_seq)

        session.writer.deliver(entry, tell, answer.seqs[0] or 0)
        await session.until_idle()
        assert (told, stored) == ([1], [2])

    play(story, "en", "es")


def test_no_end_is_told_while_the_record_numbers_them_beside_what_was_told() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        for _ in range(2):
            session.say(work=False)
        await session.until_idle()
        held, old = session.writer.holding, memory_of(session.shards.ledger)
        session.end(0, "es", None, "no node", 0)
        await session.until_told(1)
        go_back(session.shards.ledger, old)
        # Closings that were on their way all the time are numbered in the older record.
        entries = [r.Delivery(index, "en", None, "no node") for index in (0, 1)]
        answer = await session.shards.ledger.deliver(held, entries)
        assert isinstance(answer, r.Delivered)
        for entry, seq in zip(entries, answer.seqs, strict=True):
            session.end(entry.index, "en", None, "no node", seq or 0)
        await session.until_told(3)
        session.check_told()
        assert session.writer.known() == await session.stored()

    play(story, "en", "es")


def test_a_record_that_is_written_again_outdoes_a_closing_that_comes_between() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        ledger, held = session.shards.ledger, session.writer.holding
        old = memory_of(ledger)
        session.end(0, "en", None, "no node", 0)
        await session.until_told(1)
        go_back(ledger, old)
        es, fi = (r.Delivery(0, target, None, "no node") for target in ("es", "fi"))
        await ledger.deliver(held, (es,))
        late: list[asyncio.Task[Any]] = []

        def closing_comes(name: str) -> None:
            if name == "read_session" and not late:
                late.append(asyncio.ensure_future(ledger.deliver(held, (fi,))))

        session.shards.after = closing_comes
        session.shards.longest_seconds = 0.1
        session.end(0, "es", None, "no node", 1)
        await session.until_told(2)
        await session.until_idle()
        assert late
        assert session.writer.known() == await session.stored()
        session.end(0, "fi", None, "no node", 2)
        await session.until_told(3)
        session.check_told()
        assert session.writer.known() == await session.stored()

    play(story, "en", "es", "fi")


def test_an_end_that_waits_for_a_lost_number_is_told_once_when_the_record_is_gone() -> None:
    async def story(session: Writing) -> None:
        session.forgets = True
        session.say(work=False)
        await session.until_idle()
        session.end(0, "es", None, "no node", 2)
        assert session.told == []
        forget_everything(session.shards.ledger)
        assert await session.writer.check()
        session.end(0, "en", None, "no node", 0)
        await session.until_told(2)
        await session.until_idle()
        session.check_told()
        assert len(session.told) == 2

    play(story, "en", "es")


def test_what_was_stored_unheard_stays_in_a_record_that_is_written_again() -> None:
    known = _record(next_index=2, next_seq=2, open=_open(0, 1), unacknowledged=())
    found = _record(
        revision=9,
        next_index=3,
        next_seq=3,
        next_chunk_seq=7,
        open=_open(1, 2),
        unacknowledged=(r.SentDelivery(2, r.Delivery(0, "en", JobId("j-0"))),),
    )
    whole = joined(known, found)
    assert [each.index for each in whole.open] == [1, 2]
    assert [each.seq for each in whole.unacknowledged] == [2]
    assert (whole.next_index, whole.next_seq, whole.next_chunk_seq) == (3, 3, 7)
    assert (whole.revision, whole.ended) == (9, {"en": 0})


def test_numbers_of_another_past_are_given_anew() -> None:
    told = r.SentDelivery(1, r.Delivery(0, "en", JobId("j-0")))
    known = _record(next_index=2, next_seq=2, open=_open(1), unacknowledged=(told,))
    found = _record(
        next_index=2,
        next_seq=3,
        unacknowledged=(
            r.SentDelivery(1, r.Delivery(1, "es", JobId("j-1"))),
            r.SentDelivery(2, r.Delivery(0, "en", JobId("j-0"))),
        ),
    )
    whole = joined(known, found)
    assert whole.unacknowledged == (told,)
    assert (whole.next_seq, [each.index for each in whole.open]) == (2, [1])


def _record(**more: Any) -> r.StoredSession:
    random = Random(1)
    start = Writing(None, random).start  # type: ignore[arg-type]
    return r.StoredSession(
        **{**{name: getattr(start, name) for name in start.__struct_fields__}, **more}
    )


def _open(*indexes: int) -> tuple[r.OpenUtterance, ...]:
    return tuple(r.OpenUtterance(index, "en", JobId(f"j-{index}")) for index in indexes)


def _without_revision(record: r.StoredSession) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__ if name != "revision"}
