"""What became of a turn, as denominators count it: four outcomes, decided in one place."""

from __future__ import annotations

from enum import StrEnum


class TurnOutcomeKind(StrEnum):
    """Who is to thank or to blame for what a turn has, or lacks."""

    SCORED = "scored"
    TARGET_FAILED = "target_failed"
    """The target gave no answer: an error, too slow, or it kept asking to be called later."""
    UNSCORED = "unscored"
    """There is an answer, and the evaluator or judge could not score it."""
    INFRASTRUCTURE = "infrastructure"
    """Neither: a worker was lost, the run was stopped. Says nothing about quality."""


_OF_THE_TARGET = frozenset({"TARGET_ERROR", "ITEM_TIMEOUT", "RATE_LIMITED"})
_OF_AN_EVALUATOR = frozenset({"EVALUATOR_ERROR"})


def outcome_of(error_code: str | None, *, answered: bool) -> TurnOutcomeKind:
    """The outcome of an ended turn, or of one of its scores, by its error code.

    `answered` tells whether the target gave an output. The same code means something else then: an
    evaluator that is too slow, or is told to wait, leaves the turn unscored.
    """
    if error_code is None:
        return TurnOutcomeKind.SCORED
    if error_code in _OF_AN_EVALUATOR:
        return TurnOutcomeKind.UNSCORED
    if error_code in _OF_THE_TARGET:
        return TurnOutcomeKind.UNSCORED if answered else TurnOutcomeKind.TARGET_FAILED
    return TurnOutcomeKind.INFRASTRUCTURE


def outcome_of_score(
    turn_error_code: str | None,
    *,
    answered: bool,
    judged: bool,
    score_error_code: str | None = None,
) -> TurnOutcomeKind:
    """The outcome of one evaluator on an ended turn.

    `judged` tells whether the evaluator left a record. Without one, the turn's own error says why;
    a turn that is well and has no record was never given to that evaluator.
    """
    if judged:
        return outcome_of(score_error_code, answered=answered)
    if turn_error_code is None:
        return TurnOutcomeKind.UNSCORED
    return outcome_of(turn_error_code, answered=answered)
