"""The few distributions that intervals and tests are read from, by scipy's own functions.

They come from ``scipy.special``, which imports in a third of the time that ``scipy.stats`` takes
and answers one question in a microsecond. The results are those of ``scipy.stats``.
"""

from __future__ import annotations

import math

from scipy import special

_ROUNDING = 1e-13


def normal_quantile(share: float) -> float:
    """What this share of a standard normal distribution lies below."""
    return float(special.ndtri(share))


def normal_share_below(value: float) -> float:
    """The share of a standard normal distribution that lies below the value."""
    return float(special.ndtr(value))


def t_quantile(share: float, freedom: int) -> float:
    """What this share of Student's distribution lies below."""
    return float(special.stdtrit(freedom, share))


def binomial_share(most: int, count: int, rate: float) -> float:
    """How likely at most so many of `count` tries succeed, each at this rate."""
    return float(special.bdtr(most, count, rate)) if most >= 0 else 0.0


def binomial_quantile(share: float, count: int, rate: float) -> int:
    """The smallest number of successes that this share of all outcomes does not exceed."""
    found = max(0, math.ceil(float(special.bdtrik(share, count, rate))))
    # The inverse is a real number: rounded up, it may be one too many.
    if found and binomial_share(found - 1, count, rate) >= share - _ROUNDING:
        return found - 1
    return found
