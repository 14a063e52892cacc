"""Cleaning up after instances that are gone: once, by one peer, and not after one that is back."""

from __future__ import annotations

import asyncio

from tests.contract.cluster.bench import (
    CARD,
    PRESENCE_SECONDS,
    SUSPICION_SECONDS,
    TERMS,
    Bench,
    ended,
)

from dragoman.ids import InstanceId
from dragoman.live.cluster import Drained, Fenced, Renewed

GONE = InstanceId("gone")


def test_a_lapsed_instances_inbox_is_drained_and_it_is_forgotten(bench: Bench) -> None:
    one, gone = bench.joined("one"), bench.joined(GONE)
    bench.post(one, GONE, 1, 2, 3)
    # What it had in work is drained too.
    assert len(bench.take(gone, 1)) == 1
    bench.advance(PRESENCE_SECONDS)
    bench(one.renew(CARD))
    clean_up = bench.taken_down(one, GONE)

    assert bench(one.drain(clean_up, 2)) == Drained((ended(1), ended(2)), more=True)
    assert bench(one.drain(clean_up, 2)) == Drained((ended(3),), more=False)
    assert bench(one.drain(clean_up, 2)) == Drained((), more=False)
    assert bench(one.finish(clean_up))
    assert bench(one.finish(clean_up)), "asked again after a lost answer"
    assert list(bench.alive(one)) == ["one"]
    assert bench(one.take_down(GONE)) is None


def test_an_instance_that_is_present_is_not_cleaned_up(bench: Bench) -> None:
    one, _ = bench.joined("one"), bench.joined(GONE)
    bench.advance(PRESENCE_SECONDS - 1)

    assert bench(one.take_down(GONE)) is None
    assert bench(one.take_down(InstanceId("nobody"))) is None


def test_an_instance_that_left_notes_behind_is_taken_down_at_once(bench: Bench) -> None:
    one, leaver = bench.joined("one"), bench.joined("leaver")
    bench.post(one, "leaver", 1)
    bench(leaver.leave())

    clean_up = bench(one.take_down(InstanceId("leaver")))

    assert clean_up is not None
    assert bench(one.drain(clean_up)) == Drained((ended(1),), more=False)
    assert bench(one.finish(clean_up))


def test_one_of_several_peers_wins_the_clean_up(bench: Bench) -> None:
    peers = [bench.joined(f"peer-{number}") for number in range(4)]
    bench.joined(GONE)
    bench.advance(PRESENCE_SECONDS)
    assert bench(peers[0].take_down(GONE)) is None
    bench.advance(SUSPICION_SECONDS)

    async def race() -> list[object]:
        return list(await asyncio.gather(*(peer.take_down(GONE) for peer in peers)))

    won = [clean_up for clean_up in bench(race()) if clean_up is not None]

    assert len(won) == 1


def test_two_racing_drainers_share_nothing(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.joined(GONE)
    bench.post(one, GONE, 1, 2, 3, 4, 5)
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, GONE)
    # The first cleaner goes silent, the second takes over; then both drain.
    bench.advance(TERMS.owner_ttl_ms / 1000)
    taken_over = bench(other.take_down(GONE))
    assert taken_over is not None

    async def race() -> list[Drained | Fenced]:
        return list(
            await asyncio.gather(
                *(one.drain(clean_up, 2) for _ in range(3)),
                *(other.drain(taken_over, 2) for _ in range(3)),
            )
        )

    answers = bench(race())

    assert answers[:3] == [Fenced()] * 3
    drained = [note for answer in answers if isinstance(answer, Drained) for note in answer.notes]
    assert drained == [ended(number) for number in range(1, 6)]
    assert not bench(one.finish(clean_up))
    assert bench(other.finish(taken_over))


def test_a_cleaner_that_asks_again_after_a_lost_answer_still_has_the_right(bench: Bench) -> None:
    one, _ = bench.joined("one"), bench.joined(GONE)
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, GONE)

    assert bench(one.take_down(GONE)) == clean_up


def test_a_cleaner_that_goes_on_is_not_replaced(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.joined(GONE)
    bench.post(one, GONE, 1, 2, 3)
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, GONE)
    for number in range(1, 4):
        bench.advance(TERMS.owner_ttl_ms / 1000 - 1)
        assert bench(other.take_down(GONE)) is None
        assert bench(one.drain(clean_up, 1)) == Drained((ended(number),), more=number < 3)


def test_nothing_is_taken_from_an_instance_that_came_back(bench: Bench) -> None:
    one, back = bench.joined("one"), bench.joined(GONE)
    bench.post(one, GONE, 1, 2)
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, GONE)
    bench(back.join(CARD))

    assert bench(one.drain(clean_up)) == Fenced()
    assert not bench(one.finish(clean_up))
    assert [delivery.note for delivery in bench.take(back)] == [ended(1), ended(2)]
    assert bench(back.renew(CARD)) == Renewed()
    bench(one.renew(CARD))
    assert bench.alive(one) == {GONE: True, "one": True}


def test_an_instance_that_comes_back_in_the_middle_keeps_what_was_not_taken(bench: Bench) -> None:
    one, back = bench.joined("one"), bench.joined(GONE)
    bench.post(one, GONE, 1, 2)
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, GONE)

    assert bench(one.drain(clean_up, 1)) == Drained((ended(1),), more=True)
    bench(back.join(CARD))
    assert bench(one.drain(clean_up, 1)) == Fenced()
    assert [delivery.note for delivery in bench.take(back)] == [ended(2)]
