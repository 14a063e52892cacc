"""Rates and percentiles of the last minute, from counters that only grow."""

from __future__ import annotations

import pytest

from dragoman.api.live.console.figures import Figures, percentiles
from dragoman.live.stats_parts import StatsPart

BOUNDS = (0.1, 0.2, 0.4)


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    figures = Figures()
    figures.add(0.0, StatsPart(jobs_created=0))
    assert figures.jobs_per_second() == 0.0
    figures.add(5.0, StatsPart(jobs_created=50))
    assert figures.jobs_per_second() == 10.0
    figures.add(15.0, StatsPart(jobs_created=90))
    assert figures.jobs_per_second() == 4.0


def test_refusals_older_than_a_minute_no_longer_count() -> None:
    figures = Figures()
    figures.add(0.0, StatsPart(refused={"NO_CAPACITY": 3}))
    figures.add(30.0, StatsPart(refused={"NO_CAPACITY": 5, "PAIR_UNSUPPORTED": 1}))
    assert figures.refused() == {"NO_CAPACITY": 2, "PAIR_UNSUPPORTED": 1}
    figures.add(90.0, StatsPart(refused={"NO_CAPACITY": 5, "PAIR_UNSUPPORTED": 1}))
    assert figures.refused() == {}


def test_an_instance_that_left_takes_its_counts_along_and_nothing_falls_below_zero() -> None:
    figures = Figures()
    figures.add(0.0, StatsPart(jobs_created=100, refused={"NO_CAPACITY": 9}))
    figures.add(5.0, StatsPart(jobs_created=10, refused={"NO_CAPACITY": 1}))
    assert figures.jobs_per_second() == 0.0
    assert figures.refused() == {}


def test_percentiles_lie_in_the_bucket_where_the_share_is_reached() -> None:
    assert percentiles(BOUNDS, (), (0, 0, 0, 0)) is None
    found = percentiles(BOUNDS, (5, 0, 0, 0), (5, 100, 0, 0))
    assert found is not None
    assert found.p50_ms == pytest.approx(150)
    assert found.p99_ms == pytest.approx(199)
    beyond = percentiles(BOUNDS, (), (0, 0, 0, 10))
    assert beyond is not None
    assert beyond.p99_ms == 400, "all that is known is that it took longer than the last bound"
