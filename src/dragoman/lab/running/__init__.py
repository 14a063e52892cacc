"""Experiments inside a program: ``lab.run(dataset=..., target=my_function, evaluators=[...])``."""

from dragoman.lab.running.describing import Evaluator, contains, exact, http, python, recorded
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.running.run import arun, run

__all__ = [
    "Evaluator",
    "RunResult",
    "Summary",
    "arun",
    "contains",
    "exact",
    "http",
    "python",
    "recorded",
    "run",
]
