"""How several instances divide what all of them must look after."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.live.dispatch import Share


@given(st.integers(1, 12), st.lists(st.integers(0, 999), unique=True))
def test_every_number_is_exactly_one_instances(count: int, numbers: list[int]) -> None:
    shares = [Share(rank, count).of(numbers) for rank in range(count)]
    assert sorted(number for share in shares for number in share) == sorted(numbers)


def test_one_alone_has_everything() -> None:
    assert list(Share().of(range(5))) == [0, 1, 2, 3, 4]
