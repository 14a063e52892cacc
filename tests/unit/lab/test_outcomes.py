"""The four outcomes: every error code of a row falls under exactly one."""

from __future__ import annotations

import pytest

from dragoman.lab.outcomes import Outcome, outcome_of, outcome_of_score


@pytest.mark.parametrize(
    ("code", "answered", "expected"),
    [
        (None, True, Outcome.SCORED),
        ("TARGET_ERROR", False, Outcome.TARGET_FAILED),
        ("ITEM_TIMEOUT", False, Outcome.TARGET_FAILED),
        ("RATE_LIMITED", False, Outcome.TARGET_FAILED),
        ("RATE_LIMITED", True, Outcome.UNSCORED),
        ("ITEM_TIMEOUT", True, Outcome.UNSCORED),
        ("EVALUATOR_ERROR", True, Outcome.UNSCORED),
        ("WORKER_LOST", False, Outcome.INFRASTRUCTURE),
        ("CANCELLED", True, Outcome.INFRASTRUCTURE),
        ("BUDGET_EXCEEDED", False, Outcome.INFRASTRUCTURE),
        ("INTERNAL_ERROR", False, Outcome.INFRASTRUCTURE),
    ],
)
def test_a_code_falls_under_one_outcome(
    code: str | None, answered: bool, expected: Outcome
) -> None:
    assert outcome_of(code, answered=answered) is expected


def test_a_score_of_a_failed_turn_is_still_scored() -> None:
    found = outcome_of_score("EVALUATOR_ERROR", answered=True, judged=True)
    assert found is Outcome.SCORED


def test_an_evaluator_that_failed_leaves_the_turn_unscored_whatever_its_code() -> None:
    for code in ("EVALUATOR_ERROR", "RATE_LIMITED", "ITEM_TIMEOUT"):
        found = outcome_of_score(code, answered=True, judged=True, score_error_code=code)
        assert found is Outcome.UNSCORED


def test_without_a_record_the_turn_says_why() -> None:
    assert outcome_of_score("TARGET_ERROR", answered=False, judged=False) is Outcome.TARGET_FAILED
    assert outcome_of_score("WORKER_LOST", answered=False, judged=False) is Outcome.INFRASTRUCTURE
    assert outcome_of_score(None, answered=True, judged=False) is Outcome.UNSCORED
