"""How long a frame is under way: a draw, in seconds, for each frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import TypeAlias

Delay: TypeAlias = Callable[[Random], float]


def instant(_: Random) -> float:
    """No delay; frames of different links still arrive in an order of the loop's choosing."""
    return 0.0


def fixed(seconds: float) -> Delay:
    """Always the same delay."""
    return lambda _: seconds


def uniform(low_seconds: float, high_seconds: float) -> Delay:
    """Any delay between two bounds, each as likely as the other."""
    return lambda random: random.uniform(low_seconds, high_seconds)


def long_tailed(median_seconds: float, sigma: float = 0.5) -> Delay:
    """Mostly about the median and now and then far above it, as in real networks."""
    return lambda random: random.lognormvariate(math.log(median_seconds), sigma)
