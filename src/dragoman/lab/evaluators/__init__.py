"""Evaluators: each gives a turn and its output a score."""

from dragoman.lab.evaluators.evaluator import Evaluator, Score
from dragoman.lab.evaluators.kinds import (
    EVALUATORS,
    EvaluatorKind,
    check_evaluator,
    open_evaluator,
)
from dragoman.lab.evaluators.processes import ProcessPool

__all__ = [
    "EVALUATORS",
    "Evaluator",
    "EvaluatorKind",
    "ProcessPool",
    "Score",
    "check_evaluator",
    "open_evaluator",
]
