"""Comparing runs: paired, with intervals, corrected p-values, and the rows side by side.

``Comparisons(store).compare(tenant, CompareAsk(baseline=..., others=(...)))`` gives a `Comparison`.
"""

from dragoman.lab.comparison.compared import (
    Change,
    Compared,
    ComparedAnswer,
    ComparedRow,
    ComparedRun,
    Comparison,
    Finding,
    LeftOut,
    Missing,
    RunLabel,
    WorstTurn,
)
from dragoman.lab.comparison.plotting import Plot, histograms
from dragoman.lab.comparison.service import CompareAsk, Comparisons
from dragoman.lab.comparison.summary_lines import lines_of as comparison_lines
from dragoman.lab.comparison.tables import data_frame
from dragoman.lab.comparison.verdicts import Standing, corrected, judge_not_worse

__all__ = [
    "Change",
    "CompareAsk",
    "Compared",
    "ComparedAnswer",
    "ComparedRow",
    "ComparedRun",
    "Comparison",
    "Comparisons",
    "Finding",
    "LeftOut",
    "Missing",
    "Plot",
    "RunLabel",
    "Standing",
    "WorstTurn",
    "comparison_lines",
    "corrected",
    "data_frame",
    "histograms",
    "judge_not_worse",
]
