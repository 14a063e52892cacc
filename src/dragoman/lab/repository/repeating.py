"""What repetitions of the same turn tell: how steady a system is, and what k tries achieve.

Computed from values as they come, without the libraries of the `lab` extra: every install repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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


class Tried(msgspec.Struct, frozen=True):
    """What the repetitions of many turns add up to."""

    freedom: int
    """Scores beyond the first of each turn."""
    squares: float
    """The squared distances of scores from the mean of their turn, added up."""
    variance: float | None
    """Of the means of turns; None where there is one turn, or none."""
    share: float
    """The mean over turns of 1 / the scores of each."""
    verdicts: Mapping[tuple[int, int], int]
    """By how many tries of a turn pass, of how many that are decided: how many turns are so."""


def repeated(tries: Iterable[Try], repetitions: int) -> Repeated:
    """`tries` come sorted by item and turn; those without a score are left out."""
    return told_by(_added_up(tries), repetitions)


def told_by(tried: Tried, repetitions: int) -> Repeated:
    """What follows from the sums."""
    within = tried.squares / tried.freedom if tried.freedom else None
    between = tried.variance
    if between is not None and within is not None:
        # The mean of few tries varies by chance too; that part is not the items'.
        between = max(0.0, between - within * tried.share)
    at_least_one, every_one = {}, {}
    for k in _numbers_of_tries(repetitions):
        enough = {of: turns for of, turns in tried.verdicts.items() if of[1] >= k}
        total = sum(enough.values())
        if total:
            one = fsum((1 - comb(n - c, k) / comb(n, k)) * t for (c, n), t in enough.items())
            every = fsum(comb(c, k) / comb(n, k) * t for (c, n), t in enough.items())
            at_least_one[k], every_one[k] = one / total, every / total
    return Repeated(repetitions, within, between, at_least_one, every_one)


def _added_up(tries: Iterable[Try]) -> Tried:
    squares: list[float] = []
    means: list[float] = []
    shares: list[float] = []
    freedom = 0
    verdicts: Counter[tuple[int, int]] = Counter()
    for _, group in groupby(tries, key=itemgetter(0, 1)):
        of_turn = list(group)
        number = len(of_turn)
        mean = fsum(score for _, _, score, _ in of_turn) / number
        squares.append(fsum((score - mean) ** 2 for _, _, score, _ in of_turn))
        freedom += number - 1
        means.append(mean)
        shares.append(1 / number)
        decided = [passes for _, _, _, passes in of_turn if passes is not None]
        if decided:
            verdicts[sum(decided), len(decided)] += 1
    turns = len(means)
    middle = fsum(means) / turns if turns else 0.0
    variance = fsum((mean - middle) ** 2 for mean in means) / (turns - 1) if turns > 1 else None
    share = fsum(shares) / turns if turns else 0.0
    return Tried(freedom, fsum(squares), variance, share, verdicts)


def _numbers_of_tries(repetitions: int) -> list[int]:
    """Every k that is shown: all small ones, then each twice the last, and all repetitions."""
    shown = list(range(1, min(repetitions, EVERY_K_UP_TO) + 1))
    while shown[-1] * 2 < repetitions:
        shown.append(shown[-1] * 2)
    return shown if shown[-1] == repetitions else [*shown, repetitions]
