"""How sure an aggregate is, and corpus scores: doors to libraries that a bare install lacks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from dragoman.lab.model import EvaluatorSpec

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


def interval_of_mean(
    count: int,
    mean: float | None,
    stddev: float | None,
    *,
    ones: int,
    is_rate: bool,
    values: Sequence[float] | None,
    together: Together | None = None,
) -> tuple[float, float] | None:
    """The bounds of a mean, from its values where there are few, else from their sums."""
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
            return _bounds(statistics.clustered_mean_interval(count, mean, units, squares))
        # In an order that does not depend on how a database adds up.
        ordered = sorted(together.sums, key=lambda unit: (unit[1], unit[0]))
        return _bounds(statistics.unit_mean_interval(numpy.asarray(ordered, dtype=float), rng))
    if values is not None:
        return _bounds(statistics.mean_interval(numpy.asarray(values, dtype=float), rng))
    return _bounds(statistics.normal_mean_interval(count, mean, stddev))


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


def corpus_of(evaluator: EvaluatorSpec, sums: Sequence[float]) -> float | None:
    """The score of all texts together, from the sums of their statistics; None if it has none."""
    door = getattr(import_module("dragoman.lab.evaluators"), "corpus_score", None)
    return None if door is None else door(evaluator, sums)


def _statistics() -> Any:
    """The lab's statistics; None without the extra `lab`."""
    if find_spec("scipy") is None or find_spec("dragoman.lab.statistics") is None:
        return None
    return import_module("dragoman.lab.statistics")


def _bounds(interval: Any) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
