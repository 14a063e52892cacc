"""How far evaluators agree with people: against published examples, and plain counting."""

from __future__ import annotations

import pytest

from dragoman.lab.annotations import JudgedRow, agreement_of, is_calibrated
from dragoman.lab.annotations.agreement import consensus
from dragoman.lab.model import Annotation, Calibration, ExperimentId, ScoreCell


def said(annotator: str, value: float | str, name: str = "good") -> Annotation:
    if isinstance(value, str):
        return Annotation(name, annotator, label=value)
    return Annotation(name, annotator, score=value)


def cell(value: float | str | None) -> ScoreCell:
    if isinstance(value, str):
        return ScoreCell(label=value)
    return ScoreCell(score=value)


def test_kappa_is_that_of_the_textbook_table() -> None:
    # Cohen's 50 grants: 20 both yes, 5 only the first, 10 only the second, 15 both no.
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    rows = [JudgedRow((said("ann", mine),), {"judge": cell(theirs)}) for mine, theirs in pairs]
    found = agreement_of(rows, ["judge"])["good"]
    assert (found.rows, found.annotations, found.annotators) == (50, 50, 1)
    judge = found.evaluators["judge"]
    assert judge.kappa == pytest.approx(0.4)
    assert judge.same_label == pytest.approx(0.7)
    assert (judge.rows, judge.pearson, judge.alpha) == (50, None, None)
    assert found.alpha is None, "one person agrees with no other"


KRIPPENDORFF: dict[str, list[float | None]] = {
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": 4 observers, 12 units.
    "A": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    "B": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    "C": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    "D": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
}


@pytest.mark.parametrize(("as_label", "alpha"), [(True, 0.743), (False, 0.849)])
def test_alpha_is_that_of_the_published_example(as_label: bool, alpha: float) -> None:
    def value(number: float) -> float | str:
        return str(number) if as_label else number

    rows = [
        JudgedRow(
            tuple(
                said(who, value(given))
                for who, all_given in KRIPPENDORFF.items()
                if (given := all_given[unit]) is not None
            ),
            {},
        )
        for unit in range(12)
    ]
    found = agreement_of(rows, ["judge"])["good"]
    assert found.alpha == pytest.approx(alpha, abs=5e-4)
    assert (found.annotators, found.evaluators) == (4, {})
    # The same four, one of them as an evaluator: alpha of everybody is the same figure.
    three = [
        JudgedRow(
            tuple(one for one in row.annotations if one.annotator != "D"),
            {}
            if KRIPPENDORFF["D"][unit] is None
            else {"judge": cell(value(KRIPPENDORFF["D"][unit] or 0.0))},
        )
        for unit, row in enumerate(rows)
    ]
    judged = [row for row in three if row.scores]
    expected = [row for row in rows if any(one.annotator == "D" for one in row.annotations)]
    of_all = agreement_of(expected, [])["good"].alpha
    assert agreement_of(judged, ["judge"])["good"].evaluators["judge"].alpha == of_all


def test_correlations_are_those_of_the_means_of_people() -> None:
    # Anscombe's first set: x as two people who differ by one either way, y as the evaluator.
    x = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    rows = [
        JudgedRow((said("ann", mine - 1), said("bob", mine + 1)), {"judge": cell(theirs)})
        for mine, theirs in zip(x, y, strict=True)
    ]
    judge = agreement_of(rows, ["judge"])["good"].evaluators["judge"]
    assert judge.pearson == pytest.approx(0.81642, abs=1e-5)
    assert judge.spearman == pytest.approx(0.81818, abs=1e-5)
    assert (judge.kappa, judge.rows) == (None, 11)
    assert judge.alpha is not None, "two people and a judge"


def test_a_tie_of_people_is_no_label_and_corrections_are_not_compared() -> None:
    assert consensus([said("a", "yes"), said("b", "no")]) is None
    assert consensus([said("a", "yes"), said("b", "no"), said("c", "no")]) == "no"
    assert consensus([Annotation("good", "a", correction="better")]) is None
    rows = [
        JudgedRow((said("a", "yes"), said("b", "no")), {"judge": cell("yes")}),
        JudgedRow((Annotation("good", "a", correction="better"),), {"judge": cell("yes")}),
        JudgedRow((said("a", 1.0),), {"judge": cell("yes")}),
        JudgedRow((said("a", "yes"),), {"judge": cell(1.0)}),
        JudgedRow((said("a", "yes"),), {"judge": ScoreCell(error_code="EVALUATOR_ERROR")}),
    ]
    assert agreement_of(rows, ["judge"])["good"].evaluators == {}
    assert agreement_of([], ["judge"]) == {}


def test_names_are_judged_apart() -> None:
    rows = [
        JudgedRow((said("a", "yes", "x"), said("a", "no", "y")), {"judge": cell("yes")}),
        JudgedRow((said("a", "no", "x"),), {"judge": cell("no")}),
    ]
    found = agreement_of(rows, ["judge"])
    assert found["x"].evaluators["judge"].kappa == 1.0
    assert found["y"].evaluators["judge"].kappa == 0.0
    assert (found["x"].rows, found["y"].rows) == (2, 1)


def calibration(rows: int, kappa: float | None, spearman: float | None) -> Calibration:
    return Calibration(
        annotation="good",
        rows=rows,
        same_label=None,
        kappa=kappa,
        pearson=None,
        spearman=spearman,
        alpha=None,
        model="m",
        prompt="p",
        fingerprint="f",
        experiment_id=ExperimentId("e-1"),
        measured_at_ms=0,
    )


@pytest.mark.parametrize(
    ("found", "least", "is_enough"),
    [
        (None, None, False),
        (calibration(9, 0.9, None), None, False),
        (calibration(10, 0.9, None), None, True),
        (calibration(10, None, None), None, False),
        (calibration(10, 0.1, None), None, True),
        (calibration(10, 0.1, 0.9), 0.5, False),
        (calibration(10, None, 0.5), 0.5, True),
    ],
)
def test_a_judge_is_calibrated_once_it_was_measured_on_enough_rows(
    found: Calibration | None, least: float | None, is_enough: bool
) -> None:
    assert is_calibrated(found, least) is is_enough
