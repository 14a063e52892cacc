"""Times of experiments that start by themselves: time zones, daylight saving, bad expressions."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import InvalidMessage
from dragoman.lab.cron import check_cron, next_time_ms


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def times(expression: str, timezone: str, after: str, count: int) -> list[int]:
    found, at_ms = [], ms(after)
    for _ in range(count):
        at_ms = next_time_ms(expression, timezone, at_ms)
        found.append(at_ms)
    return found


@pytest.mark.parametrize(
    ("expression", "timezone", "after", "expected"),
    [
        ("0 3 * * *", "UTC", "2026-11-16T02:59:59+00:00", "2026-11-16T03:00:00+00:00"),
        ("0 3 * * *", "UTC", "2026-11-16T03:00:00+00:00", "2026-11-17T03:00:00+00:00"),
        ("0 3 * * *", "Europe/Vienna", "2026-07-01T00:00:00+00:00", "2026-07-01T01:00:00+00:00"),
        ("0 3 * * *", "Europe/Vienna", "2026-01-01T00:00:00+00:00", "2026-01-01T02:00:00+00:00"),
        ("30 5 * * *", "Asia/Kolkata", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"),
        ("*/15 * * * *", "UTC", "2026-01-01T00:01:00+00:00", "2026-01-01T00:15:00+00:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        ("0 9 * * mon-fri", "UTC", "2026-11-13T10:00:00+00:00", "2026-11-16T09:00:00+00:00"),
    ],
)
def test_the_next_time_is_the_first_that_matches_in_its_time_zone(
    expression: str, timezone: str, after: str, expected: str
) -> None:
    assert next_time_ms(expression, timezone, ms(after)) == ms(expected)


def test_a_time_that_the_change_to_summer_leaves_out_comes_once_that_day() -> None:
    # In Vienna the clocks go from 2:00 to 3:00 on 29 March 2026.
    assert times("30 2 * * *", "Europe/Vienna", "2026-03-28T00:00:00+00:00", 3) == [
        ms("2026-03-28T02:30:00+01:00"),
        ms("2026-03-29T03:00:00+02:00"),
        ms("2026-03-30T02:30:00+02:00"),
    ]


def test_a_time_that_the_change_to_winter_brings_twice_comes_once_that_day() -> None:
    # In Vienna the clocks go from 3:00 back to 2:00 on 25 October 2026.
    assert times("30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00+00:00", 2) == [
        ms("2026-10-25T02:30:00+02:00"),
        ms("2026-10-26T02:30:00+01:00"),
    ]


def test_after_the_first_of_two_equal_times_the_second_is_not_one() -> None:
    between = ms("2026-10-25T02:15:00+01:00")
    assert next_time_ms("30 2 * * *", "Europe/Vienna", between) == ms("2026-10-26T02:30:00+01:00")


def test_every_quarter_of_an_hour_comes_in_both_hours_that_look_the_same() -> None:
    found = times("*/15 * * * *", "Europe/Vienna", "2026-10-24T23:50:00+00:00", 12)
    assert {later - earlier for earlier, later in pairwise(found)} == {15 * 60_000}


@given(
    st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 */2 * * *", "15 1-3 * * sun", "59 23 L * *"]),
    st.sampled_from(["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe"]),
    st.integers(ms("2026-01-01T00:00:00+00:00"), ms("2027-01-01T00:00:00+00:00")),
)
def test_the_next_time_is_always_later(expression: str, timezone: str, after_ms: int) -> None:
    following = next_time_ms(expression, timezone, after_ms)
    assert following > after_ms
    assert next_time_ms(expression, timezone, following) > following


@pytest.mark.parametrize(
    ("expression", "timezone", "words"),
    [
        ("", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("0 0 3 * * *", "UTC", "five fields"),
        ("61 * * * *", "UTC", "bad minute"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("x * * * *", "UTC", "bad minute"),
        ("0 3 * * *", "Europe/Nowhere", "Europe/Vienna or UTC"),
        ("0 3 * * *", "../../etc/passwd", "is not a time zone"),
        ("0 3 * * *", "", "is not a time zone"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    expression: str, timezone: str, words: str
) -> None:
    with pytest.raises(InvalidMessage, match=words):
        check_cron(expression, timezone)
