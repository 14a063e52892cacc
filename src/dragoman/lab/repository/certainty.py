"""How sure an aggregate is, and corpus scores: doors to libraries that a bare install lacks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from dragoman.lab.model import EvaluatorSpec

Range = tuple[float, float]
"""The least and the most that a value can be."""

ANY: Range = (-math.inf, math.inf)
MEASURED: Range = (0.0, math.inf)
"""Of times, tokens and costs."""

SEED = 20_260_401
"""The same rows have the same interval, whenever and wherever it is asked for."""


class Together(msgspec.Struct, frozen=True):
    """Values that come in units: of the turns and repetitions of an item, or of a cluster.

    The values of a unit are alike. It is the units that were drawn, so they are what counts.
    """

    units: int
    squares: float
    """The squared distances of the units' sums from what their sizes let expect, added up."""
    sums: Sequence[tuple[float, int]] | None = None
    """Of each unit the sum of its values and how many they are, where units are few."""
    size_squares: float | None = None
    """How many values each unit has, squared and added up."""

    def worth(self, count: int) -> float:
        """How many observations all values are worth, if those of a unit were all the same."""
        return count**2 / self.size_squares if self.size_squares else float(self.units)


class Statistics(msgspec.Struct, frozen=True):
    """What the score of a corpus, and how sure it is, are computed from."""

    sums: Sequence[float]
    """The statistics of all turns, added up."""
    parts: Sequence[Sequence[float]] | None = None
    """What those of each unit add up to, where units are few."""
    units: int = 0
    squares: float | None = None
    """Where units are many: how far each moves the score, from the mean of that, squared and
    added up."""


def interval_of_mean(
    count: int,
    mean: float | None,
    stddev: float | None,
    *,
    ones: int,
    is_rate: bool,
    values: Sequence[float] | None,
    together: Together | None = None,
    within: Range = ANY,
) -> tuple[float, float] | None:
    """The bounds of a mean, from its values where there are few, else from their sums.

    A mean lies `within` what its values can be.
    """
    if mean is None or count < 2 or stddev is None:
        return None
    if is_rate:
        return interval_of_rate(ones, count, together)
    statistics = _statistics()
    if statistics is None:
        return None
    numpy = import_module("numpy")
    rng = numpy.random.default_rng(SEED)
    if together is not None:
        if together.sums is None:
            units, squares = together.units, together.squares
            found = statistics.clustered_mean_interval(count, mean, units, squares)
            return _bounds(found, mean, within)
        # In an order that does not depend on how a database adds up.
        ordered = sorted(together.sums, key=lambda unit: (unit[1], unit[0]))
        found = statistics.unit_mean_interval(numpy.asarray(ordered, dtype=float), rng)
    elif values is not None:
        found = statistics.mean_interval(numpy.asarray(values, dtype=float), rng)
    else:
        found = statistics.normal_mean_interval(count, mean, stddev)
    return _bounds(found, mean, within)


def interval_of_rate(
    part: int, count: int, together: Together | None = None
) -> tuple[float, float] | None:
    """The bounds of a share."""
    statistics = _statistics()
    if statistics is None:
        return None
    if together is None or together.units == count:
        return _bounds(statistics.rate_interval(part, count))
    units, squares = together.units, together.squares
    return _bounds(statistics.clustered_rate_interval(part, count, units, squares))


def percentile_bounds(
    count: int, shares: Mapping[str, float], together: Together | None = None
) -> dict[str, tuple[int, int]]:
    """Which of so many values, in order and counted from 1, bound each percentile that they can."""
    statistics = _statistics()
    if statistics is None:
        return {}
    worth = None if together is None else together.worth(count)
    found = {
        name: statistics.percentile_ranks(count, share, worth=worth)
        for name, share in shares.items()
    }
    return {name: ranks for name, ranks in found.items() if ranks is not None}


def range_of(evaluator: EvaluatorSpec) -> Range:
    """The least and the most that a score of this evaluator can be."""
    found: Range = _evaluators().score_range(evaluator)
    return found


def corpus_of(evaluator: EvaluatorSpec, sums: Sequence[float]) -> float | None:
    """The score of all texts together, from the sums of their statistics; None if it has none."""
    found: float | None = _evaluators().corpus_score(evaluator, sums)
    return found


def slopes_of(evaluator: EvaluatorSpec, sums: Sequence[float]) -> list[float] | None:
    """How fast the score of a corpus changes with each of its sums; None if that is not known."""
    statistics = _statistics()
    # Where the score is not known, as without the library that computes it, nothing follows.
    if statistics is None or corpus_of(evaluator, sums) is None:
        return None
    numpy = import_module("numpy")
    score = statistics.of_each(_evaluators().corpus_function(evaluator))
    found = statistics.corpus_slopes(numpy.asarray(sums, dtype=float), score)
    return None if found is None else [float(one) for one in found]


def interval_of_corpus(
    evaluator: EvaluatorSpec, corpus: float, known: Statistics
) -> tuple[float, float] | None:
    """The bounds of a corpus score, from what units add up to where they are few."""
    statistics = _statistics()
    if statistics is None:
        return None
    if known.parts is not None:
        numpy = import_module("numpy")
        # In an order that does not depend on how a database reads.
        parts = numpy.asarray(sorted(map(list, known.parts)), dtype=float)
        score = statistics.of_each(_evaluators().corpus_function(evaluator))
        rng = numpy.random.default_rng(SEED)
        return _bounds(statistics.corpus_interval(parts, score, rng), corpus, range_of(evaluator))
    if known.squares is None:
        return None
    found = statistics.delta_corpus_interval(corpus, known.units, known.squares)
    return _bounds(found, corpus, range_of(evaluator))


def _evaluators() -> Any:
    return import_module("dragoman.lab.evaluators")


def _statistics() -> Any:
    """The lab's statistics; None without the extra `lab`."""
    if find_spec("scipy") is None or find_spec("dragoman.lab.statistics") is None:
        return None
    return import_module("dragoman.lab.statistics")


def _bounds(
    interval: Any, value: float | None = None, within: Range = ANY
) -> tuple[float, float] | None:
    if interval is None:
        return None
    if value is not None and within[0] <= value <= within[1]:
        interval = interval.within(*within)  # a value outside shows that this is not its range
    return interval.low, interval.high
