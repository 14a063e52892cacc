"""What a run will take, before it starts: three items are tried, and the rest is reckoned."""

from dragoman.lab.estimates.estimates import Estimates
from dragoman.lab.estimates.figures import (
    TARGET,
    Estimate,
    EstimatedPart,
    EstimatedRange,
    MeasuredItem,
    Used,
    estimate_of,
)
from dragoman.lab.estimates.rehearsing import Rehearsal
from dragoman.lab.estimates.sampling import SAMPLE_ITEMS, Sample, drawn_from, positions

__all__ = [
    "SAMPLE_ITEMS",
    "TARGET",
    "Estimate",
    "EstimatedPart",
    "EstimatedRange",
    "Estimates",
    "MeasuredItem",
    "Rehearsal",
    "Sample",
    "Used",
    "drawn_from",
    "estimate_of",
    "positions",
]
