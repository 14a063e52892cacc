"""Whether a target counts the calls that it serves at once, and how many it bears."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dragoman.lab.worker.execution.places import (
    FEWEST_IN_TURN,
    LONGEST_CONTENTMENT_SECONDS,
    MOST_SURPRISES,
    SETTLE_SECONDS,
    Places,
)


def known(running: int) -> Places:
    """A target that was seen to count calls at once, so many of them, at second 0."""
    places = Places()
    for _ in range(max(running, FEWEST_IN_TURN)):
        places.let_in(running, now=0.0)
    return places


def refuse(places: Places, running: int, now: float, *, late: bool = False) -> None:
    places.refused(running, now, asked_seconds=None, late=late)


def test_at_first_there_is_no_number() -> None:
    assert not Places().known
    assert Places().may_be_passed_on


def test_one_call_in_the_place_of_another_proves_nothing() -> None:
    places = Places()
    places.let_in(4, now=0.0)
    assert not places.known


def test_a_number_is_known_when_every_place_was_passed_on() -> None:
    places = known(12)
    assert places.most == 12
    assert places.wait_seconds(11, now=0.0) == 0
    assert places.wait_seconds(12, now=0.0) > 0


def test_a_refusal_in_between_makes_it_begin_from_nothing() -> None:
    places = Places()
    for _ in range(FEWEST_IN_TURN - 1):
        places.let_in(1, now=0.0)
    places.not_let_in()
    places.let_in(1, now=0.0)
    assert not places.known


def test_what_was_refused_is_tried_again_after_ever_more_pauses() -> None:
    places, tried = Places(), []
    for pause in range(40):
        if places.may_be_passed_on:
            tried.append(pause)
            places.not_let_in()
        places.pause_over()
    assert tried == [0, 1, 3, 7, 15, 31]


def test_larger_numbers_are_tried_faster_and_faster_until_one_is_refused() -> None:
    places, now, tried = known(4), 0.0, []
    for _ in range(4):
        now += SETTLE_SECONDS
        assert places.wait_seconds(int(places.most), now) == 0
        tried.append(places.most)
    assert tried == [5, 7, 11, 19]
    for running in range(18, 12, -1):
        refuse(places, running, now + 0.01)
    assert places.known
    assert places.most == 13
    assert places.wait_seconds(13, now + 0.5) > 0


def test_a_number_that_proves_right_is_left_alone_for_longer_and_longer() -> None:
    places, now, tried_at = known(4), 0.0, []
    while now < 300:
        now += max(SETTLE_SECONDS, places.wait_seconds(4, now))
        assert places.wait_seconds(4, now) == 0
        tried_at.append(now)
        refuse(places, 4, now + 0.01)
        assert places.most == 4
    pauses = [round(later - earlier, 6) for earlier, later in pairwise(tried_at)]
    assert pauses == sorted(pauses)
    assert LONGEST_CONTENTMENT_SECONDS <= pauses[-1] < LONGEST_CONTENTMENT_SECONDS + 1


def test_refusals_of_calls_that_had_a_place_prove_the_contrary() -> None:
    places = known(8)
    for running in range(7, 7 - MOST_SURPRISES, -1):
        refuse(places, running, now=0.1)
    assert not places.known
    assert not places.may_be_passed_on


def test_calls_from_before_it_was_known_surprise_nobody() -> None:
    places = known(8)
    for _ in range(10):
        refuse(places, 8, now=0.1, late=True)
    assert places.most == 8


def test_surprises_far_apart_are_forgotten() -> None:
    places = known(2)
    for _ in range(10):
        refuse(places, 2, now=0.1)
        for _ in range(100):
            places.went_well()
    assert places.known


def test_a_target_that_refuses_though_nothing_runs_is_closed() -> None:
    places = known(8)
    refuse(places, 0, now=0.1)
    assert not places.known


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["in", "out", "well", "refused", "wait", "over"]), st.floats(0, 9)
        ),
        max_size=60,
    )
)
def test_there_is_always_room_for_one(events: list[tuple[str, float]]) -> None:
    places, now = Places(), 0.0
    for event, seconds in events:
        now += seconds
        if event == "in" and not places.known:
            places.let_in(1, now)
        elif event == "out" and not places.known:
            places.not_let_in()
        elif event == "well" and places.known:
            places.went_well()
        elif event == "refused" and places.known:
            refuse(places, int(seconds), now)
        elif event == "wait" and places.known:
            assert 0 <= places.wait_seconds(int(places.most), now) < math.inf
        elif event == "over":
            places.pause_over()
        assert places.most >= 1
        assert places.wait_seconds(0, now) == 0
