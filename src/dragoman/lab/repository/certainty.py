"""How sure an aggregate is, and corpus scores: doors to libraries that a bare install lacks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dragoman.lab.model import EvaluatorSpec

SEED = 20_260_401
"""The same rows have the same interval, whenever and wherever it is asked for."""


def interval_of_mean(
    count: int,
    mean: float | None,
    stddev: float | None,
    *,
    ones: int,
    is_rate: bool,
    values: Sequence[float] | None,
) -> tuple[float, float] | None:
    """The bounds of a mean, from its values where there are few, else from their sums."""
    if mean is None or count < 2 or stddev is None:
        return None
    if is_rate:
        return interval_of_rate(ones, count)
    statistics = _statistics()
    if statistics is None:
        return None
    if values is not None:
        numpy = import_module("numpy")
        rng = numpy.random.default_rng(SEED)
        return _bounds(statistics.mean_interval(numpy.asarray(values, dtype=float), rng))
    return _bounds(statistics.normal_mean_interval(count, mean, stddev))


def interval_of_rate(part: int, count: int) -> tuple[float, float] | None:
    """The bounds of a share."""
    statistics = _statistics()
    return None if statistics is None else _bounds(statistics.rate_interval(part, count))


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
