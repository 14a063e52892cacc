"""Durations of scenarios: their shapes, their spelling, and what is wrong with a bad one."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import pytest

from dragoman.simulation import (
    Distribution,
    Exponential,
    Fixed,
    Gamma,
    Lognormal,
    Measured,
    Uniform,
    from_metrics,
    from_results,
    read_distribution,
)

DRAWS = 40_000

SHAPES: list[tuple[object, Distribution]] = [
    (400, Fixed(400)),
    ({"mean": 400}, Exponential(400)),
    ({"low": 100, "high": 300}, Uniform(100, 300)),
    ({"median": 400, "p95": 900}, Lognormal(400, 900)),
    ({"mean": 400, "deviation": 100}, Gamma(400, 100)),
    ({"quantiles": [[0, 10], [0.5, 20], [1, 100]]}, Measured((0, 0.5, 1), (10, 20, 100))),
]


@pytest.mark.parametrize(("written", "shape"), SHAPES)
def test_each_shape_is_read_from_its_spelling(written: object, shape: Distribution) -> None:
    assert read_distribution(written) == shape


@pytest.mark.parametrize(("_", "shape"), SHAPES)
def test_draws_have_the_mean_that_a_shape_says(_: object, shape: Distribution) -> None:
    random = Random(7)
    drawn = sum(shape.draw(random) for _ in range(DRAWS)) / DRAWS
    assert drawn == pytest.approx(shape.mean, rel=0.03)


@pytest.mark.parametrize(("_", "shape"), SHAPES)
def test_a_shape_is_the_same_after_it_went_to_another_process(
    _: object, shape: Distribution
) -> None:
    assert pickle.loads(pickle.dumps(shape)) == shape


def test_a_lognormal_has_the_median_and_the_95th_percentile_it_was_given() -> None:
    random = Random(3)
    drawn = sorted(Lognormal(400, 900).draw(random) for _ in range(DRAWS))
    assert drawn[DRAWS // 2] == pytest.approx(400, rel=0.03)
    assert drawn[int(0.95 * DRAWS)] == pytest.approx(900, rel=0.03)


def test_measured_times_are_drawn_as_they_were_measured() -> None:
    random = Random(5)
    samples = [random.lognormvariate(6, 0.5) for _ in range(5_000)]
    shape = Measured.of_samples(samples)
    drawn = sorted(shape.draw(random) for _ in range(DRAWS))
    for share in (0.1, 0.5, 0.9, 0.99):
        measured = sorted(samples)[int(share * len(samples))]
        assert drawn[int(share * DRAWS)] == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("fast", "a number, { mean"),
        ({}, "a number, { mean"),
        ({"man": 4}, "did you mean `mean`"),
        ({"mean": "4"}, "'4' is not a number"),
        ({"mean": -1}, "at least 0"),
        ({"mean": float("nan")}, "at least 0"),
        ({"mean": True}, "is not a number"),
        ({"low": 3, "high": 1}, "swap them"),
        ({"low": 3}, "are no shape"),
        ({"median": 0, "p95": 4}, "above 0"),
        ({"median": 5, "p95": 4}, "at or above the median"),
        ({"samples": []}, "at least one value"),
        ({"quantiles": [[0, 1], [0.5, 2]]}, "from share 0 to share 1"),
        ({"quantiles": [[0, 5], [1, 2]]}, "do not fall"),
        ({"quantiles": [[0], [1, 2]]}, "a pair"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused_with_the_reason(
    written: object, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        read_distribution(written)


METRICS_PAGE = """\
# HELP scheduler_job_duration_seconds From a job's claim to its end.
# TYPE scheduler_job_duration_seconds histogram
scheduler_job_duration_seconds_bucket{le="0.1"} 0.0
scheduler_job_duration_seconds_bucket{le="0.5"} 60.0
scheduler_job_duration_seconds_bucket{le="1.0"} 90.0
scheduler_job_duration_seconds_bucket{le="2.5"} 100.0
scheduler_job_duration_seconds_bucket{le="+Inf"} 100.0
scheduler_job_duration_seconds_count 100.0
scheduler_job_duration_seconds_sum 52.0
"""


def test_times_are_read_from_a_metrics_page() -> None:
    shape = from_metrics(METRICS_PAGE)
    assert shape == Measured((0.0, 0.6, 0.9, 1.0), (100.0, 500.0, 1000.0, 2500.0))


def test_a_metrics_page_without_jobs_is_refused() -> None:
    with pytest.raises(ValueError, match="after some traffic"):
        from_metrics(
            METRICS_PAGE.replace("60.0", "0.0").replace("90.0", "0.0").replace("100.0", "0.0")
        )


def test_times_are_read_from_what_a_lab_run_exported(tmp_path: Path) -> None:
    table = tmp_path / "run.csv"
    table.write_text("item_id,latency_ms\n1,100\n2,300\n3,\n")
    lines = tmp_path / "run.jsonl"
    lines.write_text('{"latency_ms": 100}\n{"latency_ms": 300, "mine": 5}\n{}\n')
    assert from_results(table) == from_results(lines) == Measured((0.0, 1.0), (100.0, 300.0))
    assert from_results(lines, "mine").mean == 5
    with pytest.raises(ValueError, match="name the column"):
        from_results(lines, "other")
    with pytest.raises(ValueError, match="cannot be read"):
        from_results(tmp_path / "missing.csv")
