"""Does anything grow: a robust line through the last half of the readings at rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import median

from tests.soak.readings import Reading

DAY_SECONDS = 24 * 60 * 60
MOST_GROWTH = 0.05
"""What a value may grow in a day, as a share of its level."""
FEWEST_READINGS = 6
"""With fewer in the last half a line means nothing, and only the laws are judged."""
MOST_SPREAD = 24
"""How many connections more a cluster may have at rest than at its base: those to Redis that its
servers once needed at the same time. A leak of one a fault has as many within ten minutes."""
_SIDES_95 = 1.96


@dataclass(frozen=True)
class Trend:
    """Where one value is, and where it goes."""

    name: str
    level: float
    per_day: float
    """What the slope of the last half comes to in 24 hours."""
    per_day_low: float
    per_day_high: float
    """The same for the ends of the slope's 95 % interval."""

    @property
    def share(self) -> float:
        if not self.per_day:
            return 0.0
        return self.per_day / self.level if self.level else float("inf")

    @property
    def is_flat(self) -> bool:
        return self.share < MOST_GROWTH


def trend_of(name: str, points: Sequence[tuple[float, float]]) -> Trend:
    """The line of Theil and Sen: the median of the slopes between all pairs of points.

    The interval is Sen's: the slopes at the ranks that Kendall's statistic allows.
    """
    slopes = sorted(
        (later - earlier) / (at - before)
        for (before, earlier), (at, later) in combinations(points, 2)
    )
    count = len(points)
    spread = _SIDES_95 * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, int((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, int((len(slopes) + spread) / 2))
    return Trend(
        name,
        level=median(value for _, value in points),
        per_day=median(slopes) * DAY_SECONDS,
        per_day_low=slopes[low] * DAY_SECONDS,
        per_day_high=slopes[high] * DAY_SECONDS,
    )


def last_half(readings: Sequence[Reading]) -> list[Reading]:
    """Those of the second half of the time."""
    middle = readings[-1].seconds / 2 if readings else 0.0
    return [reading for reading in readings if reading.seconds >= middle]


def trends(readings: Sequence[Reading]) -> list[Trend]:
    """The trend of every value that is judged; none when there are too few readings."""
    judged = last_half(readings)
    if len(judged) < FEWEST_READINGS:
        return []
    found = []
    for kind in ("memory_kb", "pools", "counts"):
        names = dict.fromkeys(name for reading in judged for name in getattr(reading, kind))
        for name in names:
            points = [(reading.seconds, getattr(reading, kind).get(name, 0)) for reading in judged]
            found.append(trend_of(name, points))
    return found


def over_base(base: Reading, now: Reading) -> dict[str, tuple[int, int]]:
    """Counts that are higher than at the base, with both values."""
    counted = {name: (base.counts.get(name, 0), value) for name, value in now.counts.items()}
    spread = {name: (base.spread.get(name, 0), value) for name, value in now.spread.items()}
    return {
        **{name: both for name, both in counted.items() if both[1] > both[0]},
        **{name: both for name, both in spread.items() if both[1] > both[0] + MOST_SPREAD},
    }
