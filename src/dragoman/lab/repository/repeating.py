"""What repetitions of the same turn tell: how steady a system is, and what k tries achieve.

Computed from values as they come, without the libraries of the `lab` extra: every install repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from math import comb, fsum
from operator import itemgetter

import msgspec

EVERY_K_UP_TO = 10

Try = tuple[str, int, float, bool | None]
"""The item, the turn, the score, and whether it passes; None where that is not decided."""


class Repeated(msgspec.Struct, frozen=True):
    """How the scores of repetitions vary, and the chances of k tries."""

    count: int
    """How often each item was to be tried."""
    within: float | None
    """The variance between repetitions of the same turn: chance of the system itself."""
    between: float | None
    """The variance between turns without that part: some are harder than others."""
    pass_at_k: dict[int, float]
    """By k: the chance that at least one of k tries passes; empty where no try is a verdict."""
    pass_hat_k: dict[int, float]
    """By k: the chance that all of k tries pass (pass^k)."""


def repeated(tries: Iterable[Try], repetitions: int) -> Repeated:
    """`tries` come sorted by item and turn; those without a score are left out."""
    squares: list[float] = []
    freedom = 0
    means: list[float] = []
    shares: list[float] = []
    counts: list[tuple[int, int]] = []
    for _, group in groupby(tries, key=itemgetter(0, 1)):
        of_turn = list(group)
        number = len(of_turn)
        mean = fsum(score for _, _, score, _ in of_turn) / number
        squares.append(fsum((score - mean) ** 2 for _, _, score, _ in of_turn))
        freedom += number - 1
        means.append(mean)
        shares.append(1 / number)
        verdicts = [passes for _, _, _, passes in of_turn if passes is not None]
        if verdicts:
            counts.append((sum(verdicts), len(verdicts)))
    within = fsum(squares) / freedom if freedom else None
    at_least_one, every_one = {}, {}
    for k in _numbers_of_tries(repetitions):
        enough = [(passed, number) for passed, number in counts if number >= k]
        if enough:
            at_least_one[k] = fsum(1 - comb(n - c, k) / comb(n, k) for c, n in enough) / len(enough)
            every_one[k] = fsum(comb(c, k) / comb(n, k) for c, n in enough) / len(enough)
    return Repeated(repetitions, within, _between(means, shares, within), at_least_one, every_one)


def _between(means: list[float], shares: list[float], within: float | None) -> float | None:
    if len(means) < 2:
        return None
    middle = fsum(means) / len(means)
    seen = fsum((mean - middle) ** 2 for mean in means) / (len(means) - 1)
    # The mean of few tries varies by chance too; that part is not the items'.
    chance = 0.0 if within is None else within * fsum(shares) / len(shares)
    return max(0.0, seen - chance)


def _numbers_of_tries(repetitions: int) -> list[int]:
    """Every k that is shown: all small ones, then each twice the last, and all repetitions."""
    shown = list(range(1, min(repetitions, EVERY_K_UP_TO) + 1))
    while shown[-1] * 2 < repetitions:
        shown.append(shown[-1] * 2)
    return shown if shown[-1] == repetitions else [*shown, repetitions]
