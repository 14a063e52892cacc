"""How long a simulated model takes."""

from __future__ import annotations

import math
from enum import StrEnum
from random import Random

import msgspec


class Shape(StrEnum):
    """How times are spread around their middle."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    """Mean as given: mostly short, sometimes long, as of a queue."""
    LOGNORMAL = "lognormal"
    """Median as given: mostly about it, now and then far above, as of a model."""


class Latency(msgspec.Struct, frozen=True):
    """A time to draw: a base, and more for each unit of input (a second of audio, a word)."""

    base_ms: float
    per_unit_ms: float = 0.0
    shape: Shape = Shape.LOGNORMAL
    sigma: float = 0.25
    """How wide a lognormal spreads."""

    def draw_ms(self, random: Random, units: float) -> float:
        """A time for an input of so many units."""
        middle_ms = self.base_ms + self.per_unit_ms * units
        if middle_ms <= 0 or self.shape is Shape.FIXED:
            return max(0.0, middle_ms)
        if self.shape is Shape.EXPONENTIAL:
            return random.expovariate(1 / middle_ms)
        return random.lognormvariate(math.log(middle_ms), self.sigma)
