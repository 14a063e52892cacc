"""Experiments inside a program: ``lab.run(dataset=..., target=my_function, evaluators=[...])``."""

from dragoman.lab.running.describing import Evaluator, contains, exact, http, python, recorded
from dragoman.lab.running.progress import shown_on
from dragoman.lab.running.result import RunResult, Summary
from dragoman.lab.running.run import Interrupted, arun, run
from dragoman.lab.running.watching import Away, Interrupts, Reached, interrupts, watch

__all__ = [
    "Away",
    "Evaluator",
    "Interrupted",
    "Interrupts",
    "Reached",
    "RunResult",
    "Summary",
    "arun",
    "contains",
    "exact",
    "http",
    "interrupts",
    "python",
    "recorded",
    "run",
    "shown_on",
    "watch",
]
