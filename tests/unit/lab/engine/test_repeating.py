"""What repetitions tell, by the textbook."""

from __future__ import annotations

from itertools import combinations
from math import comb
from random import Random
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


def test_the_chances_are_what_counting_every_choice_of_k_tries_gives() -> None:
    for tries in range(1, 7):
        for passed in range(tries + 1):
            outcomes = [True] * passed + [False] * (tries - passed)
            found = repeated([("i", 0, float(one), one) for one in outcomes], tries)
            for k in range(1, tries + 1):
                chosen = list(combinations(outcomes, k))
                some = sum(any(of) for of in chosen) / len(chosen)
                whole = sum(all(of) for of in chosen) / len(chosen)
                assert found.pass_at_k[k] == pytest.approx(some)
                assert found.pass_hat_k[k] == pytest.approx(whole)


def test_the_variance_of_repetitions_is_told_apart_from_that_of_the_items() -> None:
    random = Random(3)
    tries = []
    for number in range(4_000):
        mean = random.gauss(0, 3.0)
        tries += [(f"i-{number:04}", 0, random.gauss(mean, 2.0), None) for _ in range(4)]
    found = repeated(tries, 4)
    assert found.within == pytest.approx(4.0, rel=0.05)
    assert found.between == pytest.approx(9.0, rel=0.07)
    assert found.pass_at_k == {}, "no try is a verdict"
