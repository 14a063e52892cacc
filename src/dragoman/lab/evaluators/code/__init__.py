"""A snippet of Python as an evaluator, run where it can reach nothing."""

from dragoman.lab.evaluators.code.evaluator import CodeEvaluator, CodeSettings, check, parts

__all__ = ["CodeEvaluator", "CodeSettings", "check", "parts"]
