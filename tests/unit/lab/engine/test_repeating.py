"""What repetitions tell, by the textbook."""

from __future__ import annotations

from math import comb
from statistics import fmean, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.lab.repository.repeating import repeated

SCORES = st.lists(st.floats(-100, 100).map(lambda score: round(score, 3)), min_size=3, max_size=3)


def tries_of(items: list[list[float]]) -> list[tuple[str, int, float, bool]]:
    return [
        (f"i{number:03}", 0, score, score >= 1.0)
        for number, scores in enumerate(items)
        for score in scores
    ]


@given(st.lists(SCORES, min_size=2, max_size=20))
def test_variance_within_and_between_items_is_that_of_one_way_analysis(
    items: list[list[float]],
) -> None:
    told = repeated(tries_of(items), 3)

    within = fmean(variance(scores) for scores in items)
    means = [fmean(scores) for scores in items]
    assert told.within == pytest.approx(within, abs=1e-6)
    assert told.between == pytest.approx(max(0.0, variance(means) - within / 3), abs=1e-6)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1))
def test_the_chances_of_k_tries_are_those_of_drawing_without_replacement(
    items: list[list[float]],
) -> None:
    told = repeated(tries_of(items), 4)

    for k in range(1, 5):
        passed = [int(sum(scores)) for scores in items]
        expected = fmean(1 - comb(4 - c, k) / comb(4, k) for c in passed)
        assert told.pass_at_k[k] == pytest.approx(expected)
        assert told.pass_hat_k[k] == pytest.approx(fmean(comb(c, k) / comb(4, k) for c in passed))
    assert told.pass_at_k[1] == pytest.approx(told.pass_hat_k[1])


def test_items_with_too_few_scores_count_only_where_they_have_enough() -> None:
    told = repeated(tries_of([[1.0, 1.0, 1.0], [0.0]]), 3)

    assert told.pass_at_k == {1: 0.5, 2: 1.0, 3: 1.0}
    assert told.within == 0.0


def test_without_scores_nothing_is_known() -> None:
    told = repeated([], 3)

    assert (told.within, told.between, told.pass_at_k, told.pass_hat_k) == (None, None, {}, {})


@pytest.mark.parametrize(
    ("repetitions", "shown"), [(2, [1, 2]), (10, list(range(1, 11))), (25, [*range(1, 11), 20, 25])]
)
def test_many_repetitions_are_told_of_in_few_steps(repetitions: int, shown: list[int]) -> None:
    told = repeated(tries_of([[1.0] * repetitions]), repetitions)

    assert list(told.pass_at_k) == shown
