"""Places in an order, as cursors of callers name them."""

from __future__ import annotations

import pytest

from dragoman.errors import InvalidMessage
from dragoman.lab.repository import Place, Sorting, check_place, keys_of

KEYS = keys_of([Sorting("latency_ms"), Sorting("status")])


def test_a_place_has_what_the_rows_are_sorted_by() -> None:
    check_place(Place("i-1", 0, (1.5, "fail")), KEYS)
    check_place(Place("i-1", 0, (None, None), repetition=2), KEYS)


@pytest.mark.parametrize(
    "place",
    [
        Place("i-1", 0),
        Place("i-1", 0, ("fail", 1.5)),
        Place("i-1", 0, (10**400, "fail")),
        Place("i-1", 0, (-(10**400), "fail")),
        Place("i-1", 0, (1.5, "nul \x00")),
        Place("i-1", 0, (1.5, "half of a pair \ud800")),
        Place("i-1\x00", 0, (1.5, "fail")),
    ],
)
def test_a_place_that_no_database_could_compare_is_refused(place: Place) -> None:
    with pytest.raises(InvalidMessage, match="cursor"):
        check_place(place, KEYS)
