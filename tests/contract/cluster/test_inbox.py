"""Notes from one instance to another: each handed out, done, and struck out."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.cluster.bench import ASSIGN, CARD, TERMS, Bench, ended
from tests.servers import PATIENT_MS

from dragoman.ids import ConnectionId, InstanceId, JobId, NodeId, SessionId
from dragoman.live.cluster import (
    AskReportNote,
    CancelNote,
    ControlNote,
    EndedNote,
    Handed,
    InboxFull,
    Note,
    NoteDelivery,
    Posted,
    Received,
    ResultNote,
    SessionTakenNote,
    SupersededNote,
    TryAgainNote,
)
from dragoman.live.protocol import Command, JobResult, Outcome

NODE, CONNECTION = NodeId("n-1"), ConnectionId("c-1")

EVERY_KIND: list[Note] = [
    ASSIGN,
    CancelNote(ASSIGN.job_id, ASSIGN.attempt_id, NODE, CONNECTION, 7, "no longer wanted"),
    EndedNote(JobId("j-1")),
    TryAgainNote(JobId("j-1"), ASSIGN.attempt_id),
    ResultNote(
        JobId("j-1"),
        ASSIGN.attempt_id,
        3,
        Outcome.SUCCESS,
        JobResult(JobId("j-1"), ASSIGN.attempt_id, True, tts_audio=bytes(range(256))),
    ),
    SupersededNote(NODE, CONNECTION, 8),
    SessionTakenNote(SessionId("s-1"), CONNECTION, 2),
    ControlNote(NODE, CONNECTION, 7, Command.DRAIN, "maintenance"),
    AskReportNote(3),
]


def handed(delivery: NoteDelivery) -> tuple[str, int, Note]:
    """A note as it was handed out, whenever it was posted."""
    return delivery.entry_id, delivery.deliveries, delivery.note


@pytest.mark.parametrize("note", EVERY_KIND, ids=lambda note: type(note).__name__)
def test_a_note_arrives_as_it_was_written(bench: Bench, note: Note) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert bench(one.post(InstanceId("other"), note)) == Posted()
    (delivery,) = bench.take(other)
    assert (delivery.note, delivery.deliveries) == (note, 1)


def test_notes_are_handed_out_in_the_order_they_came(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1, 2, 3, 4, 5)

    first, second = bench.take(other, 2), bench.take(other, 10)

    assert [delivery.note for delivery in (*first, *second)] == [ended(n) for n in range(1, 6)]


def test_an_instance_may_write_to_itself(bench: Bench) -> None:
    one = bench.joined("one")
    bench.post(one, "one", 1)

    assert [delivery.note for delivery in bench.take(one)] == [ended(1)]


def test_a_full_inbox_refuses_and_throws_nothing_out(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", *range(TERMS.inbox_max))

    assert bench(one.post(InstanceId("other"), ended(99))) == InboxFull()
    handed = bench.take(other)
    assert [delivery.note for delivery in handed] == [ended(n) for n in range(TERMS.inbox_max)]
    # What is in work has its place in the inbox still.
    assert bench(one.post(InstanceId("other"), ended(99))) == InboxFull()


def test_what_is_done_is_struck_out_and_makes_room(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", *range(TERMS.inbox_max))
    handed = bench.take(other)

    answer = bench(other.take(10, done=[delivery.entry_id for delivery in handed]))

    assert answer == Handed((), 0, 0)
    assert bench(one.post(InstanceId("other"), ended(99))) == Posted()
    view = bench(one.instances())[1]
    assert (view.inbox_length, view.pending) == (1, 0)


def test_striking_out_twice_does_no_harm(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1, 2)
    first, second = bench.take(other)

    bench.take(other, 0, done=[first.entry_id])
    bench.take(other, 0, done=[first.entry_id])

    view = bench(one.instances())[1]
    assert (view.inbox_length, view.pending) == (1, 1)
    bench.take(other, 0, done=[second.entry_id])


def test_a_note_left_lying_is_handed_out_again(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1)
    (first,) = bench.take(other)

    again, _ = bench.take_again(other)

    assert [handed(each) for each in again] == [(first.entry_id, 2, ended(1))]


def test_a_note_in_hand_is_not_handed_out_again_however_long_it_takes(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1, 2)
    long, dropped = bench.take(other)
    in_hand = [long.entry_id]

    for deliveries in (2, 3):
        again, _ = bench.take_again(other, in_hand)
        assert [handed(each) for each in again] == [(dropped.entry_id, deliveries, ended(2))]
    assert bench.take_again(other, in_hand) == ((), 1)
    # Let go of, it is handed out as one that was handed out once.
    again, _ = bench.take_again(other)
    assert [handed(each) for each in again] == [(long.entry_id, 2, ended(1))]


def test_notes_that_a_former_process_had_in_work_pass_to_the_next(bench: Bench) -> None:
    one, crashed = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1, 2)
    (in_work,) = bench.take(crashed, 1)

    restarted = bench.joined("other")
    (waiting,) = bench.take(restarted)
    again, _ = bench.take_again(restarted, in_hand=[waiting.entry_id])

    assert waiting.note == ended(2)
    assert [handed(each) for each in again] == [(in_work.entry_id, 2, ended(1))]


def test_a_waiting_reader_is_woken_by_a_note(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    async def wait_for_it() -> Received:
        async with asyncio.timeout(20):
            while True:
                received = await other.receive(10, 10)
                if received.deliveries:
                    return received

    async def live() -> Received:
        waiting = asyncio.create_task(wait_for_it())
        await asyncio.sleep(0)
        await one.post(InstanceId("other"), ended(1))
        return await waiting

    found = bench(live())

    assert [delivery.note for delivery in found.deliveries] == [ended(1)]


def test_new_notes_are_received_once_and_struck_out_like_any_other(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1, 2, 3)

    first, second = bench(other.receive(2, 0.01)), bench(other.receive(2, 0.01))

    notes = [delivery.note for delivery in (*first.deliveries, *second.deliveries)]
    assert notes == [ended(1), ended(2), ended(3)]
    assert (first.is_all, second.is_all) == (False, True)
    assert bench.take(other) == ()
    bench.take(other, 0, done=[delivery.entry_id for delivery in first.deliveries])
    again, _ = bench.take_again(other)
    assert [handed(each) for each in again] == [(second.deliveries[0].entry_id, 2, ended(3))]


def test_what_was_handed_out_before_is_not_received(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1)
    assert len(bench.take(other)) == 1

    assert bench(other.receive(10, 0.01)) == Received((), is_all=True)


def test_notes_to_the_next_life_are_not_for_the_process_that_was_superseded(bench: Bench) -> None:
    one, before, now = bench.joined("one"), bench.joined("other"), bench.joined("other")
    bench.post(one, "other", 1)

    assert bench(before.receive(10, 0.01)).deliveries == ()
    bench.post(one, "other", 2)
    assert bench(before.receive(10, 0.01)).deliveries == ()

    # What the former process has read is handed out again when it was left lying.
    found = [each.note for each in bench(now.receive(10, 0.01)).deliveries]
    again, _ = bench.take_again(now)
    assert {ended(1), ended(2)} == {*found, *(each.note for each in again)}


def test_several_notes_are_posted_together_or_not_at_all(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    together = [ended(number) for number in range(TERMS.inbox_max - 1)]

    assert bench(one.post(InstanceId("other"), *together)) == Posted()
    assert bench(one.post(InstanceId("other"), ended(98), ended(99))) == InboxFull()
    assert bench(one.post(InstanceId("other"), ended(99))) == Posted()

    assert [delivery.note for delivery in bench.take(other)] == [*together, ended(99)]


def test_waiting_ends_by_itself(bench: Bench) -> None:
    one = bench.joined("one")

    assert bench(one.receive(10, 0.01)).deliveries == ()

    assert bench.take(one) == ()


def test_an_instance_that_was_forgotten_may_ask_and_gets_nothing(bench: Bench) -> None:
    one = bench.stranger("one")

    assert bench(one.take(10)) == Handed()
    assert bench(one.receive(10, 0.01)).deliveries == ()
    bench(one.join(CARD))
    bench.post(one, "one", 1)
    assert len(bench.take(one)) == 1


def test_a_note_says_how_long_ago_it_was_posted(bench: Bench) -> None:
    """By one clock, that of where the inbox lies, whatever time the two instances think it is."""
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(one, "other", 1)
    bench.advance(7)

    (delivery,) = bench.take(other)

    assert 7_000 <= delivery.age_ms < 7_000 + PATIENT_MS
