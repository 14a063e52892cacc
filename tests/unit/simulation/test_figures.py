"""Figures: percentiles, intervals over seeds, slots over time, and the first bottleneck."""

from __future__ import annotations

import pytest

from dragoman.simulation import (
    FigureEstimate,
    FleetGroup,
    RunRecorder,
    Scenario,
    Traffic,
    compare,
    comparison_page,
    estimate,
    make_report,
    report_page,
    shown_estimate,
)
from dragoman.simulation.figures import run_figures, spread_of, t_95

SCENARIO = Scenario(
    name="<b>bold</b>",
    duration_seconds=7_200,
    warmup_seconds=60,
    start_second_of_day=23 * 3_600,
    fleet=(FleetGroup(name="gpu", nodes=2, slots=2),),
    traffic=(Traffic(name="t", sessions=1, tgt_langs=("es", "fr")),),
)


def recorded() -> RunRecorder:
    """Two hours: in the first two utterances, in the second one that was refused."""
    recorder = RunRecorder(SCENARIO)
    recorder.begins_at(100.0)
    gpu = recorder.groups[0]
    gpu.changed(100.0, slots=4)
    recorder.served(0, 110.0, 5.0, 50.0, 1)  # still warming up
    recorder.served(0, 200.0, 10.0, 100.0, 1)
    recorder.served(1, 200.0, 30.0, 300.0, 2)
    gpu.changed(3_700.0, busy=4)
    recorder.unserved(1, 3_760.0, "NO_CAPACITY")
    gpu.changed(7_300.0, busy=-4)
    recorder.finish(7_300.0)
    return recorder


def test_a_run_is_added_up_by_pair_and_hour() -> None:
    run = run_figures(SCENARIO, 3, recorded())
    assert (run.whole.asked, run.whole.served, run.whole.refused) == (3, 2, 1)
    assert run.whole.refused_share == pytest.approx(1 / 3, abs=1e-6)
    assert run.whole.reasons == {"NO_CAPACITY": 1}
    assert run.whole.attempts == 1.5
    assert run.whole.wait_ms.mean == 20.0
    assert [pair.pair for pair in run.pairs] == ["en:es", "en:fr"]
    assert list(run.hours) == ["23:00", "1d 00:00"]
    assert run.pairs[1].hours["1d 00:00"].refused == 1
    assert run.pairs[0].hours["23:00"].total_ms.p99 == 100.0


def test_slots_are_counted_minute_by_minute_and_hour_by_hour() -> None:
    gpu = run_figures(SCENARIO, 3, recorded()).groups[0]
    assert gpu.busy_share == 0.5
    assert gpu.most_busy == 4
    assert gpu.minutes == [0.0] * 60 + [1.0] * 60
    assert gpu.hours == {"23:00": 0.0, "1d 00:00": 1.0}


def test_the_first_bottleneck_names_pair_time_reason_and_remedy() -> None:
    assert run_figures(SCENARIO, 3, recorded()).bottleneck == (
        "en:fr (t) was refused first, at 00:01: 1 x NO_CAPACITY. Add slots for this pair, or let"
        " its work wait longer (pending_seconds)."
    )


def test_a_percentile_is_a_value_that_occurred() -> None:
    spread = spread_of(list(range(1, 101)))
    assert (spread.p50, spread.p95, spread.p99, spread.mean) == (50, 95, 99, 50.5)
    assert spread_of([7.0]).p99 == 7.0
    assert spread_of([]).p50 == 0.0


def test_an_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.3027 / 3**0.5, abs=1e-3)
    assert estimate([5.0]) == FigureEstimate(5.0, 5.0, 5.0)
    assert t_95(30) == pytest.approx(2.0423)
    assert t_95(40) == pytest.approx(2.0211, abs=1e-3)
    assert t_95(10_000) == pytest.approx(1.9602, abs=1e-3)


def test_figures_are_shown_with_as_many_digits_as_they_are_worth() -> None:
    assert shown_estimate(FigureEstimate(1247.3, 800.0, 1700.0)) == "1247 ± 450"
    assert shown_estimate(FigureEstimate(0.0, 0.0, 0.0)) == "0"
    assert shown_estimate(FigureEstimate(-12.25, -13.0, -11.5), sign=True) == "-12.2 ± 0.8"


def test_reports_are_pages_in_which_names_do_no_harm() -> None:
    report = make_report(SCENARIO, [run_figures(SCENARIO, 3, recorded())])
    pages = [report_page(report), comparison_page(compare(report, report))]
    for page in pages:
        assert "<b>bold</b>" not in page
        assert "&lt;b&gt;bold" in page
        assert page.startswith("<!doctype html>")


def test_only_runs_of_the_same_seeds_are_compared() -> None:
    one = make_report(SCENARIO, [run_figures(SCENARIO, 3, recorded())])
    other = make_report(SCENARIO, [run_figures(SCENARIO, 4, recorded())])
    with pytest.raises(ValueError, match="same seeds"):
        compare(one, other)
