"""Agreement and repetitions against published examples and plain counting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.random import default_rng

from dragoman.lab.statistics import (
    cohen_kappa,
    correlation,
    krippendorff_alpha,
    pass_at_k,
    pass_hat_k,
    spread,
)


def test_cohens_kappa_of_the_textbook_table() -> None:
    one = ["yes"] * 25 + ["no"] * 25
    other = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(one, other) == pytest.approx(0.4)
    assert cohen_kappa(["yes"] * 5, ["yes"] * 5) is None
    assert cohen_kappa([], []) is None


def test_krippendorffs_alpha_of_the_published_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": 4 observers, 12 units.
    table: dict[str, list[float | None]] = {
        "A": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        "B": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        "C": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        "D": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    }
    rows = [
        {judge: value for judge, said in table.items() if (value := said[unit]) is not None}
        for unit in range(12)
    ]
    assert krippendorff_alpha(rows, interval=False) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(rows, interval=True) == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha([{"A": 1.0}], interval=True) is None


def test_scores_that_never_vary_have_no_correlation() -> None:
    assert correlation(np.ones(5), np.arange(5.0)) == (None, None)
    assert correlation(np.arange(5.0), np.arange(5.0) ** 3)[1] == pytest.approx(1.0)


def test_pass_at_k_is_what_counting_every_choice_of_k_tries_gives() -> None:
    for tries in range(1, 7):
        for passed in range(tries + 1):
            outcomes = [True] * passed + [False] * (tries - passed)
            for k in range(1, tries + 1):
                chosen = list(combinations(outcomes, k))
                some = sum(any(of) for of in chosen) / len(chosen)
                whole = sum(all(of) for of in chosen) / len(chosen)
                assert pass_at_k(passed, tries, k) == pytest.approx(some)
                assert pass_hat_k(passed, tries, k) == pytest.approx(whole)
    assert pass_at_k(1, 2, 3) is None


def test_the_variance_of_repetitions_is_told_apart_from_that_of_the_items() -> None:
    rng = default_rng(3)
    tries = [rng.normal(mean, 2.0, 4) for mean in rng.normal(0, 3.0, 4_000)]
    found = spread(tries)
    assert found.within == pytest.approx(4.0, rel=0.05)
    assert found.between == pytest.approx(9.0, rel=0.07)
    assert spread([np.array([1.0])]).within is None
