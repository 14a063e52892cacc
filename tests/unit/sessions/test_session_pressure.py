"""When a client is told to slow down, and when to go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.budget import ByteBudget
from dragoman.live.protocol import BackpressureAction
from dragoman.live.sessions.delivery import Pressure

SLOW_DOWN, PAUSE, RESUME = (
    BackpressureAction.SLOW_DOWN,
    BackpressureAction.PAUSE,
    BackpressureAction.RESUME,
)


def told(pressure: Pressure, *in_flight: int) -> list[BackpressureAction]:
    messages = [pressure.now(count) for count in in_flight]
    return [message.action for message in messages if message is not None]


def test_each_change_is_told_once() -> None:
    assert told(Pressure(8), 3, 4, 5, 7, 8, 9, 8, 7, 4, 3, 0) == [SLOW_DOWN, PAUSE, RESUME]


def test_a_pause_is_lifted_below_half_and_not_before() -> None:
    assert told(Pressure(4), 4, 3, 2) == [PAUSE]
    assert told(Pressure(4), 4, 1) == [PAUSE, RESUME]


def test_a_limit_of_one_only_pauses_and_resumes() -> None:
    assert told(Pressure(1), 0, 1, 0, 1) == [PAUSE, RESUME, PAUSE]


@given(st.integers(1, 64), st.lists(st.integers(0, 80), max_size=50))
def test_what_a_client_was_told_last_fits_what_is_in_flight(
    limit: int, in_flight: list[int]
) -> None:
    pressure = Pressure(limit)
    last: BackpressureAction | None = None
    for count in in_flight:
        message = pressure.now(count)
        if message is not None:
            assert message.action is not last, "nothing is told twice"
            last = message.action
        if count >= limit:
            assert last is PAUSE
        elif count * 2 < limit:
            assert last in (None, RESUME)
        else:
            assert last in (SLOW_DOWN, PAUSE)


def test_a_budget_counts_what_is_kept_and_let_go() -> None:
    budget = ByteBudget(100)
    assert budget.has_room(100)
    assert budget.change(60)
    assert not budget.has_room(41)
    assert not budget.change(50), "too much, and still counted: it is there"
    assert budget.change(-110)
    assert budget.used == 0
