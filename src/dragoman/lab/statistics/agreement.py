"""How far two judges agree: people with evaluators, people with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from dragoman.lab.statistics.resampling import Floats


def cohen_kappa(one: Sequence[Hashable], other: Sequence[Hashable]) -> float | None:
    """Agreement of two judges on labels, beyond chance; None where both say one thing only."""
    count = len(one)
    if count == 0:
        return None
    same = sum(a == b for a, b in zip(one, other, strict=True)) / count
    first, second = Counter(one), Counter(other)
    chance = sum(first[label] * second[label] for label in first) / count**2
    if chance == 1:
        return None
    return (same - chance) / (1 - chance)


def krippendorff_alpha(
    rows: Sequence[Mapping[str, float | str]], *, interval: bool
) -> float | None:
    """Agreement of any number of judges, some of whom may be absent, beyond chance.

    A row holds what each judge said of one thing. Numbers are compared by their distance
    (`interval`), labels by whether they are the same.
    """
    said = [list(row.values()) for row in rows if len(row) > 1]
    everything = [value for values in said for value in values]
    if len(everything) < 2:
        return None
    seen = sum(_disagreement(values, interval) / (len(values) - 1) for values in said)
    expected = _disagreement(everything, interval) / (len(everything) - 1)
    if expected == 0:
        return None
    return 1 - seen / expected


def correlation(one: Floats, other: Floats) -> tuple[float | None, float | None]:
    """Pearson's and Spearman's; None where one of the two never varies."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None, None
    from scipy import stats  # takes most of a second to import, and few ask for agreement

    return (
        float(stats.pearsonr(one, other).statistic),
        float(stats.spearmanr(one, other).statistic),
    )


def _disagreement(values: Sequence[float | str], interval: bool) -> float:
    """The distances of all ordered pairs, added up."""
    if interval:
        numbers = np.asarray(values, dtype=np.float64)
        return float(2 * len(numbers) * np.sum((numbers - numbers.mean()) ** 2))
    return float(len(values) ** 2 - sum(count**2 for count in Counter(values).values()))
