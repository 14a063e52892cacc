"""Rates, percentiles and refusals of the last minute, from counters that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from dragoman.api.live.console.messages import Percentiles
from dragoman.live.stats_parts import StatsPart

WINDOW_SECONDS = 60.0
RATE_SECONDS = 10.0


class Figures:
    """Keeps the counters as they were at each look, and tells how they moved since."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, StatsPart]] = deque()

    def add(self, now: float, part: StatsPart) -> None:
        """A look at the counters; the times of looks only grow."""
        self._looks.append((now, part))
        # The last look before the window stays: the window begins with it.
        while len(self._looks) > 1 and self._looks[1][0] <= now - WINDOW_SECONDS:
            self._looks.popleft()

    @property
    def last(self) -> StatsPart:
        return self._looks[-1][1]

    def jobs_per_second(self) -> float:
        """Jobs made a second, over the last ten seconds or as long as there have been looks."""
        now, last = self._looks[-1]
        began, first = next(look for look in self._looks if look[0] >= now - RATE_SECONDS)
        if now <= began:
            return 0.0
        return round(max(0, last.jobs_created - first.jobs_created) / (now - began), 2)

    def refused(self) -> dict[str, int]:
        return _grown(self._looks[0][1].refused, self.last.refused)

    def refused_reasons(self) -> dict[str, int]:
        return _grown(self._looks[0][1].refused_reasons, self.last.refused_reasons)

    def refused_pairs(self) -> dict[str, int]:
        return _grown(self._looks[0][1].refused_pairs, self.last.refused_pairs)

    def job_duration(self, bounds: Sequence[float]) -> Percentiles | None:
        return percentiles(bounds, self._looks[0][1].job_durations, self.last.job_durations)

    def dispatch_latency(self, bounds: Sequence[float]) -> Percentiles | None:
        before, after = self._looks[0][1], self.last
        return percentiles(bounds, before.dispatch_latencies, after.dispatch_latencies)


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each count grew; an instance that left takes its counts along."""
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in grown.items() if count > 0}


def percentiles(
    bounds: Sequence[float], before: Sequence[int], after: Sequence[int]
) -> Percentiles | None:
    """Half and 99 % of what was counted in between took at most this long; None: nothing was."""
    old = [*before, *([0] * (len(after) - len(before)))]
    counts = [max(0, new - known) for new, known in zip(after, old, strict=False)]
    if not sum(counts):
        return None
    return Percentiles(_quantile(bounds, counts, 0.5), _quantile(bounds, counts, 0.99))


def _quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """In milliseconds; inside a bucket the values count as evenly spread."""
    wanted = share * sum(counts)
    lower = reached = 0.0
    for upper, count, upto in zip(bounds, counts, accumulate(counts), strict=False):
        if upto >= wanted:
            return round((lower + (upper - lower) * (wanted - reached) / count) * 1000, 3)
        lower, reached = upper, float(upto)
    return round(lower * 1000, 3)
