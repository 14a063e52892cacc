"""Whether one system is better than another, on the same items.

The test swaps the two outputs of an item at random: if neither system were better, every swap would
be as likely as what was seen. It asks nothing of the distribution of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from enum import StrEnum

import msgspec
import numpy as np
from numpy.random import Generator

from dragoman.lab.statistics.distributions import (
    normal_quantile,
    normal_share_below,
    t_quantile,
)
from dragoman.lab.statistics.intervals import (
    BOOTSTRAP_UNITS,
    Interval,
    corpus_error,
    corpus_interval,
    mean_interval,
    ratio_error,
)
from dragoman.lab.statistics.resampling import (
    PERMUTATIONS,
    Floats,
    ScoreOf,
    sign_flipped_sums,
    units_of,
)

ALPHA = 0.05
POWER = 0.8
_TIE = 1e-12
_EXACT_UNITS = 13
"""Up to so many units every swap is tried: 8,192 at most."""


class Difference(msgspec.Struct, frozen=True):
    """How far a system is from the baseline, over the items that both have a score for."""

    count: int
    units: int
    """How many of them are independent: the items, or the clusters that they belong to."""
    delta: float
    """The other's score minus the baseline's."""
    ci95: Interval | None
    p: float | None
    """How often chance alone gives a difference this large; None with fewer than two units."""
    effect: float | None
    """The mean difference in standard deviations of the differences (Cohen's d of pairs)."""
    wins: int
    losses: int
    ties: int
    detectable: float | None
    """The smallest true difference that so many items show in 80 of 100 experiments."""
    error: float | None
    """The standard error of delta."""


class Verdict(StrEnum):
    """What can be said of "not worse"."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


def compare_means(
    baseline: Floats,
    other: Floats,
    rng: Generator,
    *,
    clusters: Sequence[Hashable] | None = None,
    higher_is_better: bool = True,
) -> Difference:
    """The difference of the means of paired scores."""
    differences = other - baseline
    count = len(differences)
    # A row a unit: the sum of its differences, and how many they are.
    sums = units_of(np.column_stack((differences, np.ones(count))), clusters)
    units = sums[:, 0]
    error = ratio_error(sums) if len(units) > 1 else None
    return Difference(
        count=count,
        units=len(units),
        delta=float(differences.mean()) if count else math.nan,
        ci95=mean_interval(differences, rng, clusters=clusters),
        p=_swap_p(units, rng),
        effect=_effect(differences),
        detectable=_detectable(error, len(units)),
        error=error,
        **_sides(differences, higher_is_better),
    )


def compare_corpora(
    baseline: Floats,
    other: Floats,
    score: ScoreOf,
    rng: Generator,
    *,
    item_scores: tuple[Floats, Floats],
    clusters: Sequence[Hashable] | None = None,
    higher_is_better: bool = True,
) -> Difference:
    """The difference of two corpus scores; rows of both hold the same items' statistics.

    `item_scores` are the items' own scores, from which wins and losses are counted.
    """
    count, width = baseline.shape
    both = np.concatenate((baseline, other), axis=1)

    def difference(sums: Floats) -> Floats:
        return np.asarray(score(sums[..., width:]) - score(sums[..., :width]))

    units = units_of(both, clusters)
    error = corpus_error(units, difference, rng) if len(units) > 1 else None
    differences = item_scores[1] - item_scores[0]
    return Difference(
        count=count,
        units=len(units),
        delta=float(difference(both.sum(axis=0))) if count else math.nan,
        ci95=corpus_interval(both, difference, rng, clusters=clusters),
        p=_corpus_swap_p(units, width, score, rng),
        effect=_effect(differences),
        detectable=_detectable(error, len(units)),
        error=error,
        **_sides(differences, higher_is_better),
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values corrected for how many there are, so that one false alarm stays rare."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        corrected[place] = largest
    return corrected


def not_worse(
    found: Difference, *, margin: float = 0.0, alpha: float = ALPHA, higher_is_better: bool = True
) -> Verdict:
    """Whether the other system is worse than the baseline by no more than the margin.

    With a margin it passes when the one-sided lower bound of the difference lies above it, fails
    when the upper bound lies below it, and is inconclusive between. Without one it fails only
    when the other is significantly worse.
    """
    if found.count == 0 or math.isnan(found.delta):
        return Verdict.INCONCLUSIVE
    gain = found.delta if higher_is_better else -found.delta
    if found.error is None:
        return Verdict.INCONCLUSIVE
    reach = t_quantile(1 - alpha, max(1, found.units - 1)) * found.error
    if margin <= 0:
        worse = gain < 0 and found.p is not None and found.p < alpha
        return Verdict.FAIL if worse else Verdict.PASS
    if gain - reach > -margin:
        return Verdict.PASS
    return Verdict.FAIL if gain + reach < -margin else Verdict.INCONCLUSIVE


def items_needed(
    found: Difference, *, margin: float, alpha: float = ALPHA, higher_is_better: bool = True
) -> int | None:
    """How many items would decide whether the other is worse by more than the margin.

    None when the difference lies on the margin itself: no number would.
    """
    if found.error is None or found.count == 0:
        return None
    gain = found.delta if higher_is_better else -found.delta
    distance = abs(gain + margin)
    if distance < _TIE:
        return None
    spread = found.error * math.sqrt(found.count)
    reach = normal_quantile(1 - alpha) + normal_quantile(POWER)
    return max(2, math.ceil((reach * spread / distance) ** 2))


def _sides(differences: Floats, higher_is_better: bool) -> dict[str, int]:
    better = differences if higher_is_better else -differences
    wins, losses = int(np.sum(better > _TIE)), int(np.sum(better < -_TIE))
    return {"wins": wins, "losses": losses, "ties": len(differences) - wins - losses}


def _effect(differences: Floats) -> float | None:
    if len(differences) < 2:
        return None
    spread = float(differences.std(ddof=1))
    mean = float(differences.mean())
    if spread == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / spread


def _detectable(error: float | None, units: int) -> float | None:
    if error is None:
        return None
    freedom = units - 1
    reach = t_quantile(1 - ALPHA / 2, freedom) + t_quantile(POWER, freedom)
    return reach * error


def _swap_p(units: Floats, rng: Generator) -> float | None:
    """How often random swaps give a difference of the sums at least as large, either way."""
    moving = units[np.abs(units) > _TIE]
    if len(units) < 2:
        return None
    if len(moving) == 0:
        return 1.0
    seen = abs(float(moving.sum()))
    if len(moving) > BOOTSTRAP_UNITS:
        # So many coins toss a normal distribution.
        return 2 * normal_share_below(-seen / math.sqrt(float(np.sum(moving**2))))
    drawn = np.abs(_swapped(moving[:, None], rng)[:, 0])
    return _share_at_least(drawn, seen, exact=len(moving) <= _EXACT_UNITS)


def _corpus_swap_p(units: Floats, width: int, score: ScoreOf, rng: Generator) -> float | None:
    if len(units) < 2:
        return None
    baseline, other = units[:, :width], units[:, width:]
    half, middle = (other - baseline) / 2, (other + baseline).sum(axis=0) / 2
    seen = abs(float(score(other.sum(axis=0)) - score(baseline.sum(axis=0))))
    if len(units) > BOOTSTRAP_UNITS:

        def difference(sums: Floats) -> Floats:
            return np.asarray(score(sums[..., width:]) - score(sums[..., :width]))

        error = corpus_error(units, difference, rng)
        return 2 * normal_share_below(-seen / error) if error else (1.0 if seen < _TIE else 0.0)
    moved = _swapped(half, rng)
    drawn = np.abs(score(middle + moved) - score(middle - moved))
    return _share_at_least(drawn, seen, exact=len(units) <= _EXACT_UNITS)


def _swapped(units: Floats, rng: Generator) -> Floats:
    """The sums of every swap, where they are few; of random ones otherwise."""
    if len(units) > _EXACT_UNITS:
        return sign_flipped_sums(units, rng)
    bits = np.arange(2 ** len(units))[:, None] >> np.arange(len(units)) & 1
    return (bits * 2.0 - 1.0) @ units


def _share_at_least(drawn: Floats, seen: float, *, exact: bool) -> float:
    reached = int(np.sum(drawn >= seen - _TIE * max(1.0, seen)))
    if exact:
        return reached / len(drawn)
    # What was seen is one of the swaps: a share of zero would claim too much.
    return (reached + 1) / (PERMUTATIONS + 1)
