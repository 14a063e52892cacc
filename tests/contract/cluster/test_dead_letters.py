"""Notes that no instance could handle are kept, shown, and sent again or dropped."""

from __future__ import annotations

from tests.contract.cluster.bench import PRESENCE_SECONDS, TERMS, Bench, ended

from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    Burial,
    Cluster,
    DeadLetter,
    InboxFull,
    InstanceGone,
    NoSuchLetter,
    Posted,
    decode_note,
)


def buried(bench: Bench, sender: Cluster, reader: Cluster, number: int) -> DeadLetter:
    """A note that was handed out as often as it may, in vain."""
    known = {letter.letter_id for letter in bench(reader.letters())}
    bench.post(sender, reader.instance_id, number)
    assert len(bench.take(reader)) == 1
    for _ in range(TERMS.max_deliveries - 1):
        deliveries, _ = bench.take_again(reader)
        assert len(deliveries) == 1
    assert bench.take_again(reader) == ((), 1)
    (letter,) = [letter for letter in bench(reader.letters()) if letter.letter_id not in known]
    return letter


def test_a_note_that_fails_too_often_becomes_a_dead_letter(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    letter = buried(bench, one, other, 1)

    assert letter.instance_id == "other"
    assert letter.reason is Burial.TOO_MANY_DELIVERIES
    assert letter.deliveries == TERMS.max_deliveries + 1
    assert decode_note(letter.written) == ended(1)
    assert bench.take(other) == ()
    views = {view.instance_id: view for view in bench(one.instances())}
    assert (views[InstanceId("other")].inbox_length, views[InstanceId("other")].pending) == (0, 0)
    assert views[InstanceId("other")].dead_letters == 1
    assert views[InstanceId("one")].dead_letters == 0


def test_dead_letters_of_all_instances_are_shown_in_pages(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    letters = [buried(bench, one, other, 1), buried(bench, other, one, 2)]
    letters.append(buried(bench, one, other, 3))

    first = bench(one.letters(2))
    rest = bench(one.letters(2, after=first[-1].letter_id))

    assert [*first, *rest] == sorted(letters, key=lambda letter: letter.letter_id)
    assert bench(one.letters(2, after=rest[-1].letter_id)) == ()


def test_only_so_many_dead_letters_are_kept_and_the_oldest_go_first(bench: Bench) -> None:
    one = bench.joined("one")
    letters = [buried(bench, one, one, number) for number in range(TERMS.dead_letters_max + 2)]

    assert list(bench(one.letters())) == letters[2:]
    assert bench(one.instances())[0].dead_letters == TERMS.dead_letters_max


def test_a_dead_letter_can_be_sent_again(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    letter = buried(bench, one, other, 1)

    assert bench(one.replay(letter.letter_id)) == Posted()
    (delivery,) = bench.take(other)
    assert (delivery.note, delivery.deliveries) == (ended(1), 1)
    assert bench(one.letters()) == ()
    assert bench(one.replay(letter.letter_id)) == NoSuchLetter()


def test_a_dead_letter_stays_when_it_cannot_be_sent_again(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    letter = buried(bench, one, other, 1)
    bench.post(one, "other", *range(TERMS.inbox_max))

    assert bench(one.replay(letter.letter_id)) == InboxFull()
    bench.advance(PRESENCE_SECONDS)
    assert bench(one.replay(letter.letter_id)) == InstanceGone()
    assert bench(one.letters()) == (letter,)


def test_dead_letters_can_be_dropped(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    first, second = buried(bench, one, other, 1), buried(bench, one, other, 2)

    assert bench(one.drop([first.letter_id, "no such letter"])) == 1
    assert bench(one.drop([first.letter_id])) == 0
    assert bench(one.letters()) == (second,)
    assert bench(one.instances())[1].dead_letters == 1
