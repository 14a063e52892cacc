"""How sure a number is: intervals that hold the true value in 95 of 100 experiments.

| of | by |
| --- | --- |
| a rate | Wilson's interval; of clusters, with as many observations as theirs are worth |
| a mean of 10 to 1,000 units | the studentized bootstrap, which is right for skewed scores too |
| a mean of fewer | Student's t: so few values, drawn again, are too often all the same |
| a mean of more | Student's t; both are then the same |
| a percentile | order statistics; absent where there are too few values to bound it |
| a corpus score of up to 1,000 units | the bootstrap, bias-corrected and accelerated (BCa) |
| a corpus score of more | the delta method; in comparisons over at most 5,000 of them |
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.random import Generator

from dragoman.lab.statistics.distributions import (
    binomial_quantile,
    binomial_share,
    normal_quantile,
    normal_share_below,
    t_quantile,
)
from dragoman.lab.statistics.resampling import Floats, ScoreOf, resampled_sums, units_of

LEVEL = 0.95
BOOTSTRAP_UNITS = 1_000
"""Above it the distribution of a mean is normal for every practical purpose."""
FEW_UNITS = 10
"""Below it a resample often holds one value alone, and has no error to measure its mean by."""
_ROUNDING = 1e-9
"""Deviations that are this small beside the values come of how numbers are kept."""
_DELTA_UNITS = 5_000
_STEP = 1e-4
"""The part of a sum by which it is changed to see how a score follows."""


class Interval(msgspec.Struct, frozen=True):
    """Bounds of a value that was estimated."""

    low: float
    high: float

    def within(self, least: float, most: float) -> Interval:
        """The part of it in which the value can be."""
        return Interval(min(max(self.low, least), most), max(min(self.high, most), least))


def rate_interval(passed: int, count: int, *, level: float = LEVEL) -> Interval | None:
    """Of a share: `passed` of `count`."""
    if count == 0:
        return None
    found = _wilson(passed / count, count, level)
    return Interval(0.0 if passed == 0 else found.low, 1.0 if passed == count else found.high)


def normal_mean_interval(
    count: int, mean: float, stddev: float, *, level: float = LEVEL
) -> Interval | None:
    """Of a mean of many values, of which only these three are known."""
    if count < 2:
        return None
    reach = t_quantile((1 + level) / 2, count - 1) * stddev / math.sqrt(count)
    return Interval(mean - reach, mean + reach)


def clustered_rate_interval(
    passed: int, count: int, units: int, squares: float, *, level: float = LEVEL
) -> Interval | None:
    """Of a share whose observations come in `units` that belong together.

    `squares` are the squared distances of the units' passes from their expected ones, added up.
    Wilson's interval for as many independent observations as these are worth (after Korn and
    Graubard). Units of one observation each give Wilson's own.
    """
    if units < 2:
        return None
    rate = passed / count
    worth = float(units)  # where all are the same, nothing tells how alike a unit's are
    if 0 < passed < count:
        alone = count * rate * (1 - rate) * count / (count - 1)
        worth = count / max(1.0, squares * units / (units - 1) / alone)
    tail = (1 + level) / 2
    worth *= (t_quantile(tail, count - 1) / t_quantile(tail, units - 1)) ** 2
    return _wilson(rate, worth, level)


def _wilson(rate: float, worth: float, level: float) -> Interval:
    """Wilson's interval of a rate that was seen in so many independent observations."""
    z = normal_quantile((1 + level) / 2)
    middle = (rate + z * z / (2 * worth)) / (1 + z * z / worth)
    reach = z / (1 + z * z / worth) * math.sqrt(rate * (1 - rate) / worth + (z / (2 * worth)) ** 2)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


def clustered_mean_interval(
    count: int, mean: float, units: int, squares: float, *, level: float = LEVEL
) -> Interval | None:
    """Of a mean of many values that come in `units`, of which only these four are known.

    `squares` are the squared distances of the units' sums from their expected ones, added up.
    """
    if units < 2:
        return None
    error = math.sqrt(squares * units / (units - 1)) / count
    reach = t_quantile((1 + level) / 2, units - 1) * error
    return Interval(mean - reach, mean + reach)


def mean_interval(
    values: Floats,
    rng: Generator,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Of the mean of these values; items of one cluster count as one observation."""
    if len(values) < 2:
        return None
    # A row a unit: the sum of its values, and how many they are.
    units = units_of(np.column_stack((values, np.ones(len(values)))), clusters)
    return unit_mean_interval(units, rng, level=level)


def unit_mean_interval(units: Floats, rng: Generator, *, level: float = LEVEL) -> Interval | None:
    """Of the mean of values that were added up by unit; a row is a sum, and of how many values."""
    if len(units) < 2:
        return None
    mean = float(units[:, 0].sum() / units[:, 1].sum())
    error = ratio_error(units)
    if error <= _ROUNDING * float(np.abs(units[:, 0] / units[:, 1]).max()):
        return Interval(mean, mean)
    found = None
    if FEW_UNITS <= len(units) <= BOOTSTRAP_UNITS:
        found = _studentized(units, mean, error, rng, level)
    if found is None:
        reach = t_quantile((1 + level) / 2, len(units) - 1) * error
        return Interval(mean - reach, mean + reach)
    below, above = found
    return Interval(mean - max(0.0, above) * error, mean - min(0.0, below) * error)


def score_interval(
    values: Floats,
    rng: Generator,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Of the mean of an evaluator's scores: one that says only yes and no gives a rate."""
    count = len(values)
    if count and np.all((values == 0) | (values == 1)):
        passed = int(values.sum())
        if clusters is None or len(set(clusters)) == count:
            return rate_interval(passed, count, level=level)
        units = units_of(np.column_stack((values, np.ones(count))), clusters)
        squares = float(np.sum((units[:, 0] - units[:, 1] * passed / count) ** 2))
        return clustered_rate_interval(passed, count, len(units), squares, level=level)
    return mean_interval(values, rng, clusters=clusters, level=level)


def percentile_interval(values: Floats, share: float, *, level: float = LEVEL) -> Interval | None:
    """Of the value that this share of all lies below; absent where too few values bound it."""
    ranks = percentile_ranks(len(values), share, level=level)
    if ranks is None:
        return None
    low, high = np.sort(values)[[rank - 1 for rank in ranks]]
    return Interval(float(low), float(high))


@lru_cache(maxsize=4_096)
def percentile_ranks(
    count: int, share: float, *, worth: float | None = None, level: float = LEVEL
) -> tuple[int, int] | None:
    """Which of `count` values, in order and counted from 1, bound a percentile.

    `worth` says how many independent observations the values are worth, where they come in units.
    None where there are too few to bound it.
    """
    size = count if worth is None else min(count, math.floor(worth))
    if size < 2:
        return None
    tail = (1 - level) / 2
    # How many of the values lie below the true percentile is binomial.
    first = binomial_quantile(tail, size, share)
    last = binomial_quantile(1 - tail, size, share) + 1
    # Whole numbers hold more than they have to; the pair that holds the least still holds enough.
    pairs = [
        (binomial_share(high - 1, size, share) - binomial_share(low - 1, size, share), low, high)
        for low in (first, first + 1)
        for high in (last, last - 1)
        if 1 <= low < high <= size
    ]
    enough = [pair for pair in pairs if pair[0] >= level]
    if not enough:
        return None
    _, low, high = min(enough)
    # An observation stands for so many values; the bounds are the outermost of these.
    return (low - 1) * count // size + 1, -(-high * count // size)


def corpus_interval(
    items: Floats,
    score: ScoreOf,
    rng: Generator,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Of a score that is computed from sums over all items; a row of `items` is one item's part."""
    units = units_of(items, clusters)
    count = len(units)
    if count < 2:
        return None
    total = units.sum(axis=0)
    value = float(score(total))
    if count > BOOTSTRAP_UNITS:
        reach = normal_quantile((1 + level) / 2) * corpus_error(units, score, rng)
        return Interval(value - reach, value + reach)
    drawn = score(resampled_sums(units, rng))
    drawn = drawn[np.isfinite(drawn)]
    if drawn.size == 0 or np.all(drawn == drawn[0]):
        return Interval(value, value)
    without = score(total - units)
    low, high = _bca_shares(drawn, value, without[np.isfinite(without)], level)
    bounds = np.quantile(drawn, [low, high])
    return Interval(min(value, float(bounds[0])), max(value, float(bounds[1])))


def corpus_slopes(sums: Floats, score: ScoreOf) -> Floats | None:
    """How fast a corpus score changes with each of its sums; None where it does not do so smoothly.

    Sums of whole numbers change by whole numbers: some scores take them for counts.
    """
    steps = np.abs(sums) * _STEP
    counts = sums == np.round(sums)
    steps[counts] = np.maximum(1.0, np.round(steps[counts]))
    back = np.where(sums - steps > 0, steps, 0.0)  # a count that is no longer there is a jump
    found = score(np.concatenate((sums + np.diag(steps), sums - np.diag(back))))
    slopes = (found[: len(sums)] - found[len(sums) :]) / (steps + back)
    return slopes if np.all(np.isfinite(slopes)) else None


def delta_corpus_interval(
    value: float, units: int, squares: float, *, level: float = LEVEL
) -> Interval | None:
    """Of a corpus score of many units, by the delta method.

    `squares` are the squared distances by which each unit moves the score, from their mean, added
    up: a unit moves it by its statistics times the score's slopes.
    """
    if units < 2:
        return None
    reach = normal_quantile((1 + level) / 2) * math.sqrt(squares * units / (units - 1))
    return Interval(value - reach, value + reach)


def corpus_error(units: Floats, score: ScoreOf, rng: Generator) -> float:
    """The standard error of a corpus score: how it moves when one unit is left out."""
    count = len(units)
    total = units.sum(axis=0)
    sample = units if count <= _DELTA_UNITS else rng.choice(units, _DELTA_UNITS, replace=False)
    without = score(total - sample)
    return float(np.std(without, ddof=1)) * (count - 1) / math.sqrt(count)


def ratio_error(units: Floats) -> float:
    """The standard error of the sum of the first column over the sum of the second."""
    count = len(units)
    sums, sizes = units[:, 0], units[:, 1]
    residuals = sums - sizes * (sums.sum() / sizes.sum())
    spread = float(np.sqrt(np.sum(residuals**2) / (count - 1)))
    return spread / math.sqrt(count) / float(sizes.mean())


def _studentized(
    units: Floats, mean: float, error: float, rng: Generator, level: float
) -> tuple[float, float] | None:
    """The quantiles of a resample's distance from the mean, in its own standard errors.

    None where so many resamples hold one value alone that they would be the quantiles.
    """
    count = len(units)
    # From the mean on: far from it, a small error would be lost in the rounding of large squares.
    sums, sizes = units[:, 0] - mean * units[:, 1], units[:, 1]
    # The error of a resample follows from these sums alone, so no resample is kept whole.
    columns = np.column_stack((sums, sizes, sums * sums, sums * sizes, sizes * sizes))
    drawn = resampled_sums(columns, rng)
    total, size = drawn[:, 0], drawn[:, 1]
    means = total / size
    squares = drawn[:, 2] - 2 * means * drawn[:, 3] + means**2 * drawn[:, 4]
    errors = np.sqrt(np.maximum(squares, 0) / (count - 1) / count) / (size / count)
    known = errors > _ROUNDING * error
    if np.mean(~known) > (1 - level) / 2:
        return None
    below, above = np.quantile(means[known] / errors[known], [(1 - level) / 2, (1 + level) / 2])
    return float(below), float(above)


def _bca_shares(drawn: Floats, value: float, without: Floats, level: float) -> tuple[float, float]:
    """Which quantiles of the resamples bound the value, after Efron."""
    share = float(np.mean(drawn < value) + np.mean(drawn <= value)) / 2
    edge = 1 / (2 * len(drawn))
    bias = normal_quantile(min(max(share, edge), 1 - edge))
    distances = without.mean() - without
    spread = float(np.sum(distances**2)) ** 1.5
    pull = float(np.sum(distances**3)) / (6 * spread) if spread else 0.0

    def moved(z: float) -> float:
        return normal_share_below(bias + (bias + z) / (1 - pull * (bias + z)))

    z = normal_quantile((1 + level) / 2)
    return moved(-z), moved(z)
