"""What several tries at the same item tell: how steady a system is, and what k tries achieve."""

from __future__ import annotations

from math import comb

import msgspec
import numpy as np

from dragoman.lab.statistics.resampling import Floats


class Spread(msgspec.Struct, frozen=True):
    """Where the variance of the scores comes from."""

    within: float | None
    """Between the tries at one item: chance of the system itself."""
    between: float | None
    """Between items: some are harder than others."""


def spread(tries: list[Floats]) -> Spread:
    """`tries` has the scores of one item's repetitions in each entry."""
    repeated = [scores for scores in tries if len(scores) > 1]
    freedom = sum(len(scores) - 1 for scores in repeated)
    within = (
        sum(float(np.sum((scores - scores.mean()) ** 2)) for scores in repeated) / freedom
        if freedom
        else None
    )
    means = np.array([scores.mean() for scores in tries if len(scores)])
    if len(means) < 2:
        return Spread(within, None)
    # The mean of few tries varies by chance too; that part is not the items'.
    chance = (
        within * float(np.mean([1 / len(scores) for scores in tries if len(scores)]))
        if within is not None
        else 0.0
    )
    return Spread(within, max(0.0, float(means.var(ddof=1)) - chance))


def pass_at_k(passed: int, tries: int, k: int) -> float | None:
    """The chance that at least one of k tries passes, from what `tries` of them showed."""
    if k < 1 or tries < k:
        return None
    return 1 - comb(tries - passed, k) / comb(tries, k)


def pass_hat_k(passed: int, tries: int, k: int) -> float | None:
    """The chance that all of k tries pass (pass^k)."""
    if k < 1 or tries < k:
        return None
    return comb(passed, k) / comb(tries, k)
