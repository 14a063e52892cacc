"""What one address does: counted, refused, forgotten again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.auth import address_limit
from dragoman.auth.address_limit import AddressLimit
from dragoman.clock import ManualClock
from dragoman.errors import RateLimited


def failures_until_refused(limit: AddressLimit, address: str, at_most: int = 1000) -> int:
    for count in range(at_most):
        try:
            limit.record(address)
        except RateLimited:
            return count
    return at_most


def test_an_address_may_fail_so_often_a_minute_and_then_waits() -> None:
    clock = ManualClock()
    limit = AddressLimit(clock, 30, "wait")
    assert failures_until_refused(limit, "10.0.0.1") == 30
    with pytest.raises(RateLimited) as refusal:
        limit.check("10.0.0.1")
    assert refusal.value.retry_after_ms == 2000
    limit.check("10.0.0.2")
    clock.advance(2.0)
    limit.check("10.0.0.1")
    assert failures_until_refused(limit, "10.0.0.1") == 1


def test_after_a_quiet_minute_all_is_forgotten() -> None:
    clock = ManualClock()
    limit = AddressLimit(clock, 30, "wait")
    failures_until_refused(limit, "10.0.0.1")
    clock.advance(60)
    assert failures_until_refused(limit, "10.0.0.1") == 30


@given(st.lists(st.floats(0, 20), max_size=200), st.integers(1, 60))
def test_no_pattern_of_attempts_gets_more_than_the_rate(pauses: list[float], rate: int) -> None:
    clock = ManualClock()
    limit = AddressLimit(clock, rate, "wait")
    let_in = 0
    for pause in pauses:
        clock.advance(pause)
        let_in += failures_until_refused(limit, "10.0.0.1", at_most=1)
    assert let_in <= rate + clock.monotonic() * rate / 60 + 1e-6


def test_a_rate_of_zero_is_no_limit() -> None:
    limit = AddressLimit(ManualClock(), 0, "wait")
    assert failures_until_refused(limit, "10.0.0.1") == 1000


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("", "testclient", False),
    ],
)
def test_addresses_that_one_party_holds_are_counted_together(
    one: str, other: str, together: bool
) -> None:
    limit = AddressLimit(ManualClock(), 5, "wait")
    failures_until_refused(limit, one)
    assert failures_until_refused(limit, other) == (0 if together else 5)


def test_the_table_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_limit, "MAX_ADDRESSES", 100)
    limit = AddressLimit(ManualClock(), 1, "wait")
    for number in range(1000):
        limit.record(f"address-{number}")
    limit.check("address-0")
    with pytest.raises(RateLimited):
        limit.check("address-999")
