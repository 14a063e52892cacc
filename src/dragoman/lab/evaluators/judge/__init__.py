"""A language model that judges outputs."""

from dragoman.lab.evaluators.judge.evaluator import JudgeEvaluator
from dragoman.lab.evaluators.judge.settings import (
    JudgeSettings,
    check,
    parts,
    score_range,
    unpriced,
)

__all__ = ["JudgeEvaluator", "JudgeSettings", "check", "parts", "score_range", "unpriced"]
