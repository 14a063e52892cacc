"""The reckoning of an estimate, without a lab."""

from __future__ import annotations

import math
from random import Random

import pytest

from dragoman.lab.estimate_report import estimate_lines, question
from dragoman.lab.estimates import EstimatedRange, MeasuredItem, Used, estimate_of
from dragoman.lab.estimates.figures import whole

PRICED = Used(1, 100, 0.01)


def test_the_whole_is_the_mean_with_students_interval_for_the_rest() -> None:
    # Mean 2, standard deviation 1, t = 4.303, and 3 of 10 are known.
    found = whole([1.0, 2.0, 3.0], 10)
    half = 4.303 * math.sqrt(1 / 3 - 1 / 10) * 10
    assert found.likely == 20
    assert found.high == pytest.approx(20 + half)
    assert found.low == 6, "the sample alone used as much, however wide the interval is"
    narrow = whole([100.0, 101.0, 102.0], 1000)
    assert narrow.low == pytest.approx(101_000 - 4.303 * math.sqrt(1 / 3 - 1 / 1000) * 1000)


def test_a_sample_of_everything_is_no_estimate() -> None:
    assert whole([1.0, 5.0, 3.0], 3) == EstimatedRange(9.0, 9.0, 9.0)


def test_one_item_tells_nothing_about_the_range() -> None:
    assert whole([7.0], 10) == EstimatedRange(70.0, 7.0, None)


@pytest.mark.parametrize("shape", ["even", "skewed"])
def test_the_range_holds_the_true_sum_about_as_often_as_it_says(shape: str) -> None:
    random = Random(7)
    held = 0
    for _ in range(2000):
        draw = random.gauss if shape == "even" else random.gammavariate
        everything = [max(0.0, draw(10.0, 2.0)) for _ in range(200)]
        found = whole(random.sample(everything, 3), 200)
        assert found.high is not None
        held += found.low <= sum(everything) <= found.high
    assert 0.93 <= held / 2000 <= 0.97, f"{held} of 2000 with seed 7"


def test_parts_are_added_and_those_that_do_not_tell_are_named() -> None:
    measured = [
        MeasuredItem(
            2.0, {"target": PRICED, "score.fluent": Used(3, 30, None), "score.exact": Used()}
        ),
        MeasuredItem(
            4.0, {"target": PRICED, "score.fluent": Used(3, 30, None), "score.exact": Used()}
        ),
    ]
    found = estimate_of(
        measured,
        items=50,
        turns=50,
        repetitions=2,
        concurrency=10,
        unpriced={"score.fluent": "the model 'j' has no price"},
    )
    assert found.calls == EstimatedRange(400, 400, 400)
    assert found.tokens == EstimatedRange(13_000, 13_000, 13_000)
    assert found.cost is not None
    assert found.cost.likely == pytest.approx(1.0)
    assert found.without_cost == {"score.fluent": "the model 'j' has no price"}
    assert found.without_tokens == ()
    assert found.seconds is not None
    assert found.seconds.likely == pytest.approx(30.0), "ten at once"
    assert [part.name for part in found.parts] == ["target", "score.fluent"]
    text = "\n".join(estimate_lines(found))
    assert "2 of 50 items, each 2 times" in text
    assert "cost    about 1.00, without score.fluent" in text
    assert "of which score.fluent: 300 calls, 3,000 tokens" in text
    assert "The cost of score.fluent is not known: the model 'j' has no price." in text
    assert question(found) == (
        "This run will take about 400 calls, about 13,000 tokens, a cost of about 1.00 and about "
        "30.0 s. Go on?"
    )


def test_what_failed_counts_by_what_it_used_and_not_by_the_time_it_took() -> None:
    measured = [
        MeasuredItem(0.01, {"target": Used(1)}, failed=True),
        MeasuredItem(3.0, {"target": PRICED}),
        MeasuredItem(3.0, {"target": PRICED}),
    ]
    found = estimate_of(measured, items=3, turns=3, repetitions=1, concurrency=1, unpriced={})
    assert (found.failed, found.calls.likely) == (1, 3)
    assert found.tokens is not None
    assert found.tokens.likely == 200
    assert found.seconds is not None
    assert found.seconds.likely == 9.0
    all_failed = [MeasuredItem(0.01, {"target": Used(1)}, failed=True)]
    none = estimate_of(all_failed, items=9, turns=9, repetitions=1, concurrency=1, unpriced={})
    assert (none.seconds, none.tokens, none.cost) == (None, None, None)
    assert "tokens  not known" in "\n".join(estimate_lines(none))


def test_a_run_takes_at_least_as_long_as_its_longest_item() -> None:
    measured = [MeasuredItem(seconds, {"target": Used(1)}) for seconds in (1.0, 9.0, 2.0)]
    found = estimate_of(measured, items=4, turns=4, repetitions=1, concurrency=100, unpriced={})
    assert found.seconds is not None
    assert found.seconds.likely == found.seconds.low == 9.0


def test_the_time_of_loading_libraries_counts_once() -> None:
    took = [MeasuredItem(8.0, {}, is_first=True), MeasuredItem(0.01, {}), MeasuredItem(0.03, {})]
    settings = {"items": 160, "turns": 160, "repetitions": 1, "concurrency": 16, "unpriced": {}}
    found = estimate_of(took, **settings).seconds  # type: ignore[arg-type]
    assert found is not None
    assert found.likely == pytest.approx(7.98 + 160 * 0.02 / 16)
    # One item that went well is all there is: what it took must do.
    alone = estimate_of([took[0], MeasuredItem(0.1, {}, failed=True)], **settings).seconds  # type: ignore[arg-type]
    assert alone is not None
    assert alone.likely == pytest.approx(8.0 * 160 / 16)
    # A first item that is quicker than the others started nothing.
    even = [MeasuredItem(1.0, {}, is_first=True), MeasuredItem(2.0, {}), MeasuredItem(2.0, {})]
    same = estimate_of(even, **settings).seconds  # type: ignore[arg-type]
    assert same is not None
    assert same.likely == pytest.approx(2.0 * 160 / 16)
