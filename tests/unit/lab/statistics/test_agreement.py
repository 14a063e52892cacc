"""Agreement and repetitions against published examples and plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.lab.statistics import (
    cohen_kappa,
    correlation,
    krippendorff_alpha,
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
