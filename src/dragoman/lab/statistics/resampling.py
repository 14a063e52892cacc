"""Drawing again from what was seen: the ground of every interval and test that has no formula.

A *unit* is what is drawn: an item, or, where items belong together (sentences of one speaker, parts
of one document), the whole cluster. Values are added up by unit once; a resample is then a matter
of adding units up again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ScoreOf = Callable[[Floats], Floats]
"""From sums of statistics (their last axis) to the corpus score; many at a time."""

RESAMPLES = 2_000
PERMUTATIONS = 9_999
_BLOCK_CELLS = 30_000
"""How many random numbers are held at a time: larger arrays cost more to allocate than to fill."""


def of_each(score: Callable[[Sequence[float]], float | None]) -> ScoreOf:
    """A score of one corpus as one of many at a time; a corpus that has none has NaN."""

    def scores(sums: Floats) -> Floats:
        rows = sums.reshape(-1, sums.shape[-1])
        found = [score(row) for row in rows.tolist()]
        values = np.array([math.nan if one is None else one for one in found], dtype=np.float64)
        return values.reshape(sums.shape[:-1])

    return scores


def units_of(values: Floats, clusters: Sequence[Hashable] | None) -> Floats:
    """Rows of sums, one row a unit; `values` has one row an item."""
    if clusters is None:
        return values
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} items have {len(clusters)} cluster names")
    numbers: dict[Hashable, int] = {}
    places = np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.intp)
    sums = np.zeros((len(numbers), *values.shape[1:]))
    np.add.at(sums, places, values)
    return sums


def resampled_sums(units: Floats, rng: Generator, times: int = RESAMPLES) -> Floats:
    """The sums of `times` resamples: as many units as there are, drawn with replacement."""
    count = len(units)
    block = max(1, _BLOCK_CELLS // count)
    columns = units.reshape(count, -1)
    parts = []
    for done in range(0, times, block):
        size = min(block, times - done)
        # How often each unit was drawn: one product then adds up all columns.
        drawn = rng.integers(0, count, size=(size, count), dtype=np.int32)
        cells = drawn + (np.arange(size, dtype=np.int64) * count)[:, None]
        often = np.bincount(cells.ravel(), minlength=size * count).reshape(size, count)
        parts.append(often.astype(np.float64) @ columns)
    return np.concatenate(parts)


def sign_flipped_sums(units: Floats, rng: Generator, times: int = PERMUTATIONS) -> Floats:
    """The sums when each unit keeps its sign or changes it, by the toss of a coin."""
    count = len(units)
    block = max(1, _BLOCK_CELLS // count)
    parts = []
    for done in range(0, times, block):
        size = min(block, times - done)
        width = -(-count // 8)
        coins = np.frombuffer(rng.bytes(size * width), dtype=np.uint8).reshape(size, width)
        signs = np.unpackbits(coins, axis=1)[:, :count] * 2.0 - 1.0
        parts.append(signs @ units)
    return np.concatenate(parts)
