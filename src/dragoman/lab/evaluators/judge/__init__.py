"""A language model that judges outputs."""

from dragoman.lab.evaluators.judge.evaluator import JudgeEvaluator
from dragoman.lab.evaluators.judge.settings import Settings, check, parts, unpriced

__all__ = ["JudgeEvaluator", "Settings", "check", "parts", "unpriced"]
