"""How the soak tells growth from noise."""

from __future__ import annotations

from random import Random

import pytest
from tests.soak.readings import Reading
from tests.soak.verdict import DAY_SECONDS, FEWEST_READINGS, over_base, trend_of, trends


def test_a_steady_growth_is_carried_on_to_a_day() -> None:
    trend = trend_of("memory", [(60.0 * n, 1000 + n) for n in range(30)])
    assert trend.per_day == pytest.approx(DAY_SECONDS / 60)
    assert not trend.is_flat


def test_noise_without_growth_is_flat_and_zero_is_nearly_always_inside_the_interval() -> None:
    covered = 0
    for seed in range(200):
        random = Random(seed)
        points = [(60.0 * n, 100_000 + random.uniform(-50, 50)) for n in range(30)]
        trend = trend_of("memory", points)
        assert trend.is_flat, f"seed {seed}"
        covered += trend.per_day_low < 0 < trend.per_day_high
    assert covered >= 180


def test_a_few_outliers_do_not_tilt_the_line() -> None:
    points = [(60.0 * n, 5000.0 if n in (27, 29) else 100.0) for n in range(30)]
    assert trend_of("tasks", points).per_day == 0


def test_what_shrinks_is_flat() -> None:
    assert trend_of("memory", [(60.0 * n, 1000.0 - n) for n in range(30)]).is_flat


def test_what_grows_from_nothing_is_not_flat() -> None:
    points = [(60.0 * n, float(n // 20)) for n in range(30)]
    assert trend_of("rows", points).per_day == 0, "one step is no slope"
    assert not trend_of("rows", [(60.0 * n, float(max(0, n - 16))) for n in range(30)]).is_flat


def test_only_the_last_half_is_judged() -> None:
    readings = [
        Reading(60.0 * n, memory_kb={"server memory": min(100.0 + n, 130.0)}) for n in range(1, 61)
    ]
    (trend,) = trends(readings)
    assert trend.level == 130
    assert trend.per_day == 0


def test_too_few_readings_have_no_trend() -> None:
    assert trends([Reading(float(n)) for n in range(FEWEST_READINGS)]) == []


def test_a_count_that_is_new_is_over_a_base_without_it() -> None:
    base = Reading(0.0, counts={"rows: a": 2, "rows: b": 5})
    now = Reading(9.0, counts={"rows: a": 2, "rows: b": 4, "rows: c": 1})
    assert over_base(base, now) == {"rows: c": (0, 1)}
