"""Evaluators: each gives a turn and its output a score."""

from dragoman.lab.evaluators.composite import CompositeEvaluator
from dragoman.lab.evaluators.evaluator import (
    CallsModels,
    ComputesAtOnce,
    OpenedEvaluator,
    Score,
)
from dragoman.lab.evaluators.fingerprints import Fingerprint, differences
from dragoman.lab.evaluators.kinds import (
    EVALUATORS,
    EvaluatorKind,
    check_evaluator,
    check_evaluators,
    corpus_function,
    corpus_score,
    fingerprints,
    higher_is_better,
    open_evaluator,
    resolved_evaluators,
    score_range,
    unpriced_evaluator,
)
from dragoman.lab.evaluators.processes import FunctionProcessPool

__all__ = [
    "EVALUATORS",
    "CallsModels",
    "CompositeEvaluator",
    "ComputesAtOnce",
    "EvaluatorKind",
    "Fingerprint",
    "FunctionProcessPool",
    "OpenedEvaluator",
    "Score",
    "check_evaluator",
    "check_evaluators",
    "corpus_function",
    "corpus_score",
    "differences",
    "fingerprints",
    "higher_is_better",
    "open_evaluator",
    "resolved_evaluators",
    "score_range",
    "unpriced_evaluator",
]
