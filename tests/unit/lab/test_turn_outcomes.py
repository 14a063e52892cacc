"""The four outcomes: every error code of a row falls under exactly one."""

from __future__ import annotations

import pytest

from dragoman.lab.turn_outcomes import TurnOutcomeKind, outcome_of, outcome_of_score


@pytest.mark.parametrize(
    ("code", "answered", "expected"),
    [
        (None, True, TurnOutcomeKind.SCORED),
        ("TARGET_ERROR", False, TurnOutcomeKind.TARGET_FAILED),
        ("ITEM_TIMEOUT", False, TurnOutcomeKind.TARGET_FAILED),
        ("RATE_LIMITED", False, TurnOutcomeKind.TARGET_FAILED),
        ("RATE_LIMITED", True, TurnOutcomeKind.UNSCORED),
        ("ITEM_TIMEOUT", True, TurnOutcomeKind.UNSCORED),
        ("EVALUATOR_ERROR", True, TurnOutcomeKind.UNSCORED),
        ("WORKER_LOST", False, TurnOutcomeKind.INFRASTRUCTURE),
        ("CANCELLED", True, TurnOutcomeKind.INFRASTRUCTURE),
        ("BUDGET_EXCEEDED", False, TurnOutcomeKind.INFRASTRUCTURE),
        ("INTERNAL_ERROR", False, TurnOutcomeKind.INFRASTRUCTURE),
    ],
)
def test_a_code_falls_under_one_outcome(
    code: str | None, answered: bool, expected: TurnOutcomeKind
) -> None:
    assert outcome_of(code, answered=answered) is expected


def test_a_score_of_a_failed_turn_is_still_scored() -> None:
    found = outcome_of_score("EVALUATOR_ERROR", answered=True, judged=True)
    assert found is TurnOutcomeKind.SCORED


def test_an_evaluator_that_failed_leaves_the_turn_unscored_whatever_its_code() -> None:
    for code in ("EVALUATOR_ERROR", "RATE_LIMITED", "ITEM_TIMEOUT"):
        found = outcome_of_score(code, answered=True, judged=True, score_error_code=code)
        assert found is TurnOutcomeKind.UNSCORED


def test_without_a_record_the_turn_says_why() -> None:
    assert (
        outcome_of_score("TARGET_ERROR", answered=False, judged=False)
        is TurnOutcomeKind.TARGET_FAILED
    )
    assert (
        outcome_of_score("WORKER_LOST", answered=False, judged=False)
        is TurnOutcomeKind.INFRASTRUCTURE
    )
    assert outcome_of_score(None, answered=True, judged=False) is TurnOutcomeKind.UNSCORED
