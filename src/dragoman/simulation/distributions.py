"""How long things take: a draw for each, from a shape that a scenario names in a few numbers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, Protocol

from dragoman.spelling import nearest

_P95_SIGMAS = 1.6448536269514722
"""The 95th percentile of a normal distribution, in standard deviations above its mean."""


class Distribution(Protocol):
    """Any shape: it has a mean, and values are drawn from it."""

    @property
    def mean(self) -> float: ...

    def draw(self, random: Random) -> float: ...

    def as_toml(self) -> str:
        """The shape as a scenario file spells it."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same value: ``400``."""

    value: float

    @property
    def mean(self) -> float:
        return self.value

    def draw(self, random: Random) -> float:
        return self.value

    def as_toml(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Exponential:
    """Any value, short ones more often than long ones: ``{ mean = 400 }``."""

    mean: float

    def draw(self, random: Random) -> float:
        return random.expovariate(1.0) * self.mean

    def as_toml(self) -> str:
        return f"{{ mean = {self.mean:g} }}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any value between two bounds, each as likely as the other: ``{ low = 100, high = 300 }``."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def draw(self, random: Random) -> float:
        return self.low + (self.high - self.low) * random.random()

    def as_toml(self) -> str:
        return f"{{ low = {self.low:g}, high = {self.high:g} }}"


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Mostly about the median, now and then far above: ``{ median = 400, p95 = 900 }``.

    Service times of models have this shape more often than any other.
    """

    median: float
    p95: float

    @property
    def sigma(self) -> float:
        return math.log(self.p95 / self.median) / _P95_SIGMAS

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def draw(self, random: Random) -> float:
        return self.median * math.exp(self.sigma * random.normalvariate())

    def as_toml(self) -> str:
        return f"{{ median = {self.median:g}, p95 = {self.p95:g} }}"


@dataclass(frozen=True, slots=True)
class Gamma:
    """A mean and how far values lie from it: ``{ mean = 400, deviation = 100 }``."""

    mean: float
    deviation: float

    def draw(self, random: Random) -> float:
        if self.deviation == 0 or self.mean == 0:
            return self.mean
        shape = (self.mean / self.deviation) ** 2
        return random.gammavariate(shape, self.mean / shape)

    def as_toml(self) -> str:
        return f"{{ mean = {self.mean:g}, deviation = {self.deviation:g} }}"


@dataclass(frozen=True, slots=True)
class Measured:
    """As it was measured: values at rising shares, with straight lines between them.

    ``{ quantiles = [[0.0, 80], [0.5, 390], [0.95, 910], [1.0, 2400]] }``, or the values
    themselves: ``{ samples = [390, 410, 385] }``.
    """

    shares: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of_samples(cls, samples: Sequence[float], most_points: int = 200) -> Measured:
        """The shape of so many samples, kept at no more points than are worth keeping."""
        ordered = sorted(samples)
        points = min(most_points, len(ordered))
        if points == 1:
            return cls((0.0, 1.0), (ordered[0], ordered[0]))
        shares = tuple(point / (points - 1) for point in range(points))
        last = len(ordered) - 1
        return cls(shares, tuple(ordered[round(share * last)] for share in shares))

    @property
    def mean(self) -> float:
        steps = zip(self.shares, self.shares[1:], self.values, self.values[1:], strict=False)
        return sum((after - before) * (low + high) / 2 for before, after, low, high in steps)

    def draw(self, random: Random) -> float:
        share = random.random()
        shares, values = self.shares, self.values
        above = min(bisect_right(shares, share), len(shares) - 1)
        low, high = shares[above - 1], shares[above]
        part = (share - low) / (high - low)
        return values[above - 1] + (values[above] - values[above - 1]) * part

    def as_toml(self) -> str:
        points = zip(self.shares, self.values, strict=True)
        return f"{{ quantiles = [{', '.join(f'[{s:.4g}, {v:.6g}]' for s, v in points)}] }}"


_SHAPES: Mapping[frozenset[str], type[Any]] = {
    frozenset({"mean"}): Exponential,
    frozenset({"low", "high"}): Uniform,
    frozenset({"median", "p95"}): Lognormal,
    frozenset({"mean", "deviation"}): Gamma,
}
_KEYS = ("mean", "low", "high", "median", "p95", "deviation", "quantiles", "samples")
SPELLINGS = (
    "a number, { mean = .. }, { low = .., high = .. }, { median = .., p95 = .. },"
    " { mean = .., deviation = .. }, { quantiles = [[share, value], ..] } or { samples = [..] }"
)
"""How a distribution can be written, for messages and documents."""


def read_distribution(written: object) -> Distribution:
    """The distribution that a scenario file names; raises ValueError that says what is wrong."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        return Fixed(_number(written))
    if not isinstance(written, Mapping) or not written:
        raise ValueError(f"it must be {SPELLINGS}")
    for key in written:
        if key not in _KEYS:
            meant = nearest(str(key), _KEYS)
            hint = f"did you mean `{meant}`?" if meant else f"it must be {SPELLINGS}"
            raise ValueError(f"a distribution has no `{key}`; {hint}")
    if set(written) == {"samples"}:
        return Measured.of_samples([_number(value) for value in _list(written["samples"])])
    if set(written) == {"quantiles"}:
        return _measured(_list(written["quantiles"]))
    shape = _SHAPES.get(frozenset(written))
    if shape is None:
        raise ValueError(f"{' and '.join(sorted(written))} are no shape; it must be {SPELLINGS}")
    return _checked(shape(**{key: _number(value) for key, value in written.items()}))


def _checked(shape: Distribution) -> Distribution:
    match shape:
        case Uniform(low, high) if high < low:
            raise ValueError(f"high ({high:g}) is below low ({low:g}); swap them")
        case Lognormal(median, p95) if median <= 0 or p95 < median:
            raise ValueError("median must be above 0, and p95 at or above the median")
    return shape


def _measured(points: Sequence[object]) -> Measured:
    shares: list[float] = []
    values: list[float] = []
    for point in points:
        pair = _list(point)
        if len(pair) != 2:
            raise ValueError("each quantile is a pair: [share, value]")
        shares.append(_number(pair[0]))
        values.append(_number(pair[1]))
    rises = all(before < after for before, after in pairwise(shares))
    if len(shares) < 2 or shares[0] != 0 or shares[-1] != 1 or not rises:
        raise ValueError("quantiles go from share 0 to share 1, each share above the one before")
    if values != sorted(values):
        raise ValueError("quantiles have values that do not fall as shares rise; sort them")
    return Measured(tuple(shares), tuple(values))


def _list(written: object) -> Sequence[object]:
    if not isinstance(written, list) or not written:
        raise ValueError("it must be a list with at least one value")
    return written


def _number(written: object) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError(f"{written!r} is not a number")
    if not math.isfinite(written) or written < 0:
        raise ValueError(f"{written!r} is not a number of at least 0")
    return float(written)
