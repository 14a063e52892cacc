"""Who is there: joining, staying, lapsing, coming back."""

from __future__ import annotations

import msgspec
import pytest
from tests.contract.cluster.bench import CARD, PRESENCE_SECONDS, SUSPICION_SECONDS, Bench, ended

from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    InstanceGone,
    InstanceView,
    Joined,
    Posted,
    Renewed,
    Superseded,
    TakenDown,
)


def test_an_instance_that_joined_is_seen_by_the_others(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")

    assert bench.alive(one) == bench.alive(other) == {"one": True, "other": True}


def test_what_an_instance_tells_about_itself_is_what_others_see(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    card = msgspec.structs.replace(CARD, draining=True, nodes=12, sessions=300)
    bench(one.renew(card))

    seen = bench(other.instances())[0]

    assert seen == InstanceView(InstanceId("one"), card, True, 0, 0, 0)


def test_an_instance_that_goes_silent_lapses_and_takes_no_notes(bench: Bench) -> None:
    one, _ = bench.joined("one"), bench.joined("silent")
    bench.advance(PRESENCE_SECONDS - 1)
    bench(one.renew(CARD))
    bench.advance(1)

    assert bench.alive(one) == {"one": True, "silent": False}
    assert bench(one.post(InstanceId("silent"), ended(1))) == InstanceGone()


def test_renewing_keeps_an_instance_present(bench: Bench) -> None:
    one = bench.joined("one")
    for _ in range(5):
        bench.advance(PRESENCE_SECONDS - 1)
        assert bench(one.renew(CARD)) == Renewed()

    assert bench.alive(one) == {"one": True}


def test_an_instance_that_never_was_takes_no_notes(bench: Bench) -> None:
    one = bench.joined("one")

    assert bench(one.post(InstanceId("nobody"), ended(1))) == InstanceGone()
    assert bench.alive(one) == {"one": True}


def test_a_second_process_of_the_same_name_supersedes_the_first(bench: Bench) -> None:
    first, second = bench.joined("one"), bench.stranger("one")

    assert bench(second.join(CARD)) == Joined(took_over=True)
    assert bench(first.renew(CARD)) == Superseded()
    assert bench(first.take(10)) == Superseded()
    assert bench(second.renew(CARD)) == Renewed()


def test_an_earlier_life_that_the_server_went_back_to_supersedes_no_process(bench: Bench) -> None:
    """A failover or an old dump brings back the record of a process that is no more."""
    first, second = bench.stranger("one"), bench.stranger("one")
    bench.advance(10)
    bench(second.join(CARD))
    bench.post(second, "one", 1)
    # The record is again as it was before the second process had joined.
    bench.turn_back(10)
    bench(first.join(CARD))
    bench.advance(11)

    assert isinstance(bench(second.renew(CARD)), Renewed)
    assert bench.alive(second) == {"one": True}
    assert bench(first.renew(CARD)) == Superseded()
    assert [delivery.note for delivery in bench.take(second)] == [ended(1)]
    third = bench.stranger("one")
    assert bench(third.join(CARD)) == Joined(took_over=True)
    assert bench(second.renew(CARD)) == Superseded()


def test_the_goodbye_of_a_superseded_process_changes_nothing(bench: Bench) -> None:
    first, second = bench.joined("one"), bench.joined("one")
    bench(first.leave())

    assert bench.alive(second) == {"one": True}
    assert bench(second.renew(CARD)) == Renewed()


def test_an_instance_that_leaves_with_an_empty_inbox_is_forgotten_at_once(bench: Bench) -> None:
    one, leaver = bench.joined("one"), bench.joined("leaver")
    bench(leaver.leave())

    assert bench.alive(one) == {"one": True}
    assert bench(one.post(InstanceId("leaver"), ended(1))) == InstanceGone()


def test_an_instance_that_lapsed_and_was_left_alone_goes_on_as_if_nothing_was(
    bench: Bench,
) -> None:
    """After an outage of Redis every instance has lapsed, and none needs to drop a socket."""
    one, other = bench.joined("one"), bench.joined("other")
    bench.post(other, "one", 1)
    bench.advance(10 * PRESENCE_SECONDS)

    assert bench(one.renew(CARD)) == Renewed(revived=True)
    assert bench(one.renew(CARD)) == Renewed()
    assert [delivery.note for delivery in bench.take(one)] == [ended(1)]


def test_after_an_outage_an_instance_that_speaks_up_in_time_is_not_taken_down(
    bench: Bench,
) -> None:
    early, late = bench.joined("early"), bench.joined("late")
    bench.advance(10 * PRESENCE_SECONDS)
    bench(early.renew(CARD))

    assert bench(early.take_down(InstanceId("late"))) is None
    bench.advance(SUSPICION_SECONDS - 1)
    assert bench(late.renew(CARD)) == Renewed(revived=True)
    bench.advance(1)
    assert bench(early.take_down(InstanceId("late"))) is None
    assert bench(late.renew(CARD)) == Renewed()


def test_a_suspicion_that_was_put_to_rest_begins_anew(bench: Bench) -> None:
    one, other = bench.joined("one"), bench.joined("other")
    bench.advance(PRESENCE_SECONDS)
    assert bench(one.take_down(InstanceId("other"))) is None
    bench(other.renew(CARD))
    bench.advance(PRESENCE_SECONDS)

    assert bench(one.take_down(InstanceId("other"))) is None
    assert bench(other.renew(CARD)) == Renewed(revived=True)


def test_an_instance_that_was_taken_down_learns_it_and_may_join_anew(bench: Bench) -> None:
    one, paused = bench.joined("one"), bench.joined("paused")
    bench.advance(PRESENCE_SECONDS)
    clean_up = bench.taken_down(one, "paused")

    assert bench(paused.renew(CARD)) == TakenDown()
    assert bench(paused.take(10)) == TakenDown()
    assert bench(one.finish(clean_up))
    assert bench(paused.renew(CARD)) == TakenDown()
    assert bench(paused.join(CARD)) == Joined()
    assert bench(paused.renew(CARD)) == Renewed()
    assert bench(one.post(InstanceId("paused"), ended(1))) == Posted()


@pytest.mark.parametrize("name", ["with {braces}", "with spaces", "naïve/слово:1"])
def test_an_instance_may_have_an_odd_name(bench: Bench, name: str) -> None:
    one = bench.joined(name)
    bench.post(one, name, 1)

    assert bench.alive(one) == {name: True}
    assert [delivery.note for delivery in bench.take(one)] == [ended(1)]
