"""The distributions are those of scipy.stats, and are there without it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from dragoman.lab.statistics import percentile_interval, rate_interval
from dragoman.lab.statistics.distributions import (
    binomial_quantile,
    binomial_share,
    normal_quantile,
    normal_share_below,
    t_quantile,
)

SHARES = (1e-9, 0.001, 0.025, 0.2, 0.5, 0.8, 0.95, 0.975, 0.999)


@pytest.mark.parametrize("share", SHARES)
def test_quantiles_are_those_of_scipy(share: float) -> None:
    assert normal_quantile(share) == pytest.approx(stats.norm.ppf(share), rel=1e-12)
    for freedom in (1, 2, 5, 30, 999, 10**6):
        expected = stats.t.ppf(share, freedom)
        assert t_quantile(share, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("value", [-40.0, -8.0, -1.96, 0.0, 1.0, 6.0])
def test_the_share_below_a_value_is_that_of_scipy_far_out_too(value: float) -> None:
    assert normal_share_below(value) == pytest.approx(stats.norm.cdf(value), rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 7, 50, 199, 10_000, 1_000_000])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.9, 0.99])
def test_numbers_of_successes_are_those_of_scipy(count: int, rate: float) -> None:
    exact = stats.binom(count, rate)
    for share in SHARES:
        most = binomial_quantile(share, count, rate)
        assert most == exact.ppf(share)
        assert binomial_share(most, count, rate) == pytest.approx(exact.cdf(most), rel=1e-7)
    assert binomial_share(-1, count, rate) == 0


def test_the_interval_of_a_rate_is_wilsons_by_scipy() -> None:
    for count in (1, 2, 10, 137):
        for passed in range(count + 1):
            found = rate_interval(passed, count)
            expected = stats.binomtest(passed, count).proportion_ci(0.95, method="wilson")
            assert found is not None
            assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-12)
            assert 0.0 <= found.low <= passed / count <= found.high <= 1.0


def test_the_interval_of_a_percentile_holds_the_level_and_not_much_more() -> None:
    """Of every pair of ranks around the percentile, a close one: scipy says what it holds."""
    values = np.sort(default_rng(3).exponential(1, 400))
    for share in (0.5, 0.9, 0.95, 0.99):
        found = percentile_interval(values, share)
        assert found is not None
        low, high = (int(np.searchsorted(values, one)) + 1 for one in (found.low, found.high))
        below = stats.binom(len(values), share)
        assert 0.95 <= below.cdf(high - 1) - below.cdf(low - 1) < 0.975
    assert percentile_interval(values[:0], 0.5) is None
    assert percentile_interval(values[:1], 0.5) is None


def test_intervals_do_not_wait_for_scipy_stats() -> None:
    """It takes longer to import than all else that a short experiment does."""
    program = (
        "import sys, numpy; from dragoman.lab import statistics as s;"
        "s.rate_interval(3, 9); s.mean_interval(numpy.arange(9.0), numpy.random.default_rng(1));"
        "print('scipy.stats' in sys.modules)"
    )
    asked = [sys.executable, "-c", program]
    told = subprocess.run(asked, check=False, capture_output=True, text=True)
    assert (told.stdout.strip(), told.stderr) == ("False", "")
