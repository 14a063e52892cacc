"""Experiments as users ask for them: what REST, the command line and `lab.run` all call."""

from dragoman.lab.experiments.asking import quota_of, unpriced_target_and_scores
from dragoman.lab.experiments.overviews import Overview, RunOverview
from dragoman.lab.experiments.service import Experiments
from dragoman.lab.experiments.starting import StartAsk, Started

__all__ = [
    "Experiments",
    "Overview",
    "RunOverview",
    "StartAsk",
    "Started",
    "quota_of",
    "unpriced_target_and_scores",
]
