"""Adding up the statistics of a score, turn by turn, for the score of a corpus and its interval."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dragoman.lab.model import EvaluatorSpec
from dragoman.lab.repository.certainty import Statistics, slopes_of

FEW_UNITS = 1_000
"""Up to here an interval is made from what each unit adds up to, above it from their sums."""

_BLOCK_UNITS = 1_000


class CorpusSums:
    """Sums over all turns, and over the turns of each unit.

    Of many units it keeps the sums of the products of their statistics: however fast a score
    changes with each statistic, how far the units move it follows from these.
    """

    def __init__(self, *, in_order: bool) -> None:
        """`in_order` says that the turns of a unit come one after another."""
        self._in_order = in_order
        self._sums: list[float] = []
        self._open: dict[Hashable, list[float]] = {}
        """Units of which more turns may come."""
        self._few: list[list[float]] = []
        self._block: list[list[float]] = []
        self._products: Any = 0.0
        self._units = 0

    def add(self, unit: Hashable, statistics: Sequence[float]) -> None:
        _add(self._sums, statistics)
        known = self._open.get(unit)
        if known is not None:
            _add(known, statistics)
            return
        if self._in_order:
            self._close()
        self._open[unit] = list(statistics)

    def told(self, evaluator: EvaluatorSpec) -> Statistics:
        """What is known once every turn was added."""
        self._close()
        if self._units <= FEW_UNITS:
            width = len(self._sums)
            parts = [[*part, *[0.0] * (width - len(part))] for part in self._few]
            return Statistics(self._sums, parts, self._units)
        self._multiply()
        slopes = slopes_of(evaluator, self._sums)
        if slopes is None:
            return Statistics(self._sums)
        numpy = import_module("numpy")
        moved = numpy.asarray(slopes)
        total = float(moved @ numpy.asarray(self._sums))
        squares = float(moved @ self._products @ moved) - total**2 / self._units
        return Statistics(self._sums, None, self._units, max(0.0, squares))

    def _close(self) -> None:
        for statistics in self._open.values():
            self._units += 1
            if self._units <= FEW_UNITS:
                self._few.append(statistics)
            self._block.append(statistics)
        self._open = {}
        if len(self._block) >= _BLOCK_UNITS:
            self._multiply()

    def _multiply(self) -> None:
        block, self._block = self._block, []
        if not block or find_spec("numpy") is None:  # then there is no interval
            return
        numpy = import_module("numpy")
        rows = numpy.zeros((len(block), len(self._sums)))
        for place, statistics in enumerate(block):
            rows[place, : len(statistics)] = statistics
        products = rows.T @ rows
        known = self._products
        if isinstance(known, float) or len(known) == len(products):
            self._products = known + products
        else:  # a turn has more statistics than those before it
            products[: len(known), : len(known)] += known
            self._products = products


def _add(sums: list[float], statistics: Sequence[float]) -> None:
    sums += [0.0] * (len(statistics) - len(sums))
    for place, value in enumerate(statistics):
        sums[place] += value
