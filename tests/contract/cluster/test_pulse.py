"""A process that stood still finds out before it does anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.cluster import Pulse

TTL_SECONDS = 30.0


def test_a_pulse_that_is_felt_in_time_was_never_paused() -> None:
    pulse = Pulse(TTL_SECONDS, now=100.0)

    assert not any(pulse.paused(100.0 + 10 * tick) for tick in range(50))


def test_a_pause_as_long_as_others_wait_is_noticed() -> None:
    pulse = Pulse(TTL_SECONDS, now=100.0)

    assert pulse.paused(130.0)


def test_a_pause_stays_noticed_until_it_was_dealt_with() -> None:
    pulse = Pulse(TTL_SECONDS, now=0.0)

    assert pulse.paused(31.0)
    assert pulse.paused(31.1), "felt again, in time, but the sockets are still there"
    pulse.dealt_with()
    assert not pulse.paused(31.2)


@given(st.lists(st.floats(min_value=0, max_value=60), max_size=30))
def test_exactly_the_gaps_that_are_too_long_are_pauses(gaps: list[float]) -> None:
    pulse, now = Pulse(TTL_SECONDS, now=0.0), 0.0
    for gap in gaps:
        before, now = now, now + gap
        assert pulse.paused(now) == (now - before >= TTL_SECONDS)
        pulse.dealt_with()
