"""What a summary says of few items: bounds that a score, a time or a cost can have."""

from __future__ import annotations

import pytest

from dragoman.lab.evaluators import score_range
from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.repository import aggregate_of, spread_of
from dragoman.lab.repository.certainty import interval_of_mean, range_of


def test_a_time_is_not_below_zero_however_few_were_measured() -> None:
    found = aggregate_of(spread_of([12.0, 31.5, 306.0]))
    assert found.ci95 is not None
    low, high = found.ci95
    assert low == 0
    assert 116.5 < high < 1_000


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("chrf", {"reference": "r"}, (0, 100)),
        ("bleu", {"reference": "r"}, (0, 100)),
        ("wer", {"reference": "r"}, (0, float("inf"))),
        ("exact", {"reference": "r"}, (0, 1)),
        ("latency", {}, (0, float("inf"))),
        ("python", {"function": "m:f"}, (-float("inf"), float("inf"))),
        ("gone", {}, (-float("inf"), float("inf"))),
    ],
)
def test_each_kind_says_what_its_scores_can_be(
    kind: str, settings: dict[str, str], expected: tuple[float, float]
) -> None:
    assert score_range(EvaluatorSpec(kind, kind, settings=dict(settings))) == expected


def test_a_score_of_three_items_stays_on_its_scale() -> None:
    chrf = range_of(EvaluatorSpec("chrf", "chrf", settings={"reference": "r"}))
    values = [92.49, 100.0, 100.0]
    mean = sum(values) / 3
    found = interval_of_mean(3, mean, 4.34, ones=0, is_rate=False, values=values, within=chrf)
    assert found is not None
    assert 80 < found[0] < mean < found[1] == 100
