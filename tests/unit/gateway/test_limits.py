from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.clock import ManualClock
from dragoman.live.gateway.limits import TokenBucket
from dragoman.live.gateway.wire import fitting_reason, frame_bytes, is_larger


@given(
    per_second=st.integers(1, 50),
    steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 100)), max_size=30),
)
def test_a_bucket_never_lets_more_through_than_its_rate_and_one_burst(
    per_second: int, steps: list[tuple[float, int]]
) -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_second, clock)
    passed = 0
    for pause, attempts in steps:
        clock.advance(pause)
        passed += sum(bucket.take() for _ in range(attempts))
        assert passed <= per_second + clock.monotonic() * per_second + 1e-6


def test_who_keeps_to_the_rate_is_never_held_up() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, clock)
    for _ in range(1_000):
        clock.advance(0.1001)
        assert bucket.take()


def test_a_rate_of_zero_is_no_limit() -> None:
    bucket = TokenBucket(0, ManualClock())
    assert all(bucket.take() for _ in range(10_000))


@given(reason=st.text(max_size=200))
def test_a_reason_fits_in_a_close_frame_and_is_cut_between_characters(reason: str) -> None:
    fitted = fitting_reason(reason)
    assert len(fitted.encode()) <= 123
    assert fitted == reason or reason.startswith(fitted.removesuffix("..."))


def test_a_reason_that_is_too_long_is_cut_after_a_word_and_says_so() -> None:
    fitted = fitting_reason("unbelievable " * 20)
    assert fitted == " ".join(["unbelievable"] * 9) + "..."


def test_a_reason_that_is_no_valid_text_does_not_break_the_close() -> None:
    assert fitting_reason("lone \ud800 surrogate") == "lone ? surrogate"


@given(text=st.text(max_size=60), limit=st.integers(0, 100))
def test_the_size_of_a_frame_is_counted_in_bytes(text: str, limit: int) -> None:
    size = len(text.encode())
    assert frame_bytes(text) == frame_bytes(text.encode()) == size
    assert is_larger(text, limit) == is_larger(text.encode(), limit) == (size > limit)
