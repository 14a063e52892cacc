"""The reckoning: from what a few items used to what all of them will use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

import msgspec

TARGET = "target"
"""What the target's part of an estimate is called; an evaluator's is `score.NAME`."""


def part_of(score: str) -> str:
    """What an evaluator's part of an estimate is called."""
    return f"score.{score}"


_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Student's t for 95 %, two-sided, by degrees of freedom. A bare install has no scipy."""


class EstimatedRange(msgspec.Struct, frozen=True):
    """A figure of the whole run: the likely value, and its 95 % interval.

    The interval comes from how much the sampled items differ. `high` is None when one item was
    sampled, which tells nothing about the others.
    """

    likely: float
    low: float
    high: float | None


class Used(msgspec.Struct, frozen=True):
    """What one part of the experiment used for one item; None: it does not tell."""

    calls: int = 0
    tokens: int | None = None
    cost: float | None = None


class MeasuredItem(msgspec.Struct, frozen=True):
    """One sampled item: how long it took, and what each part used, by the part's name."""

    seconds: float
    parts: Mapping[str, Used]
    failed: bool = False
    is_first: bool = False
    """Whether libraries were loaded and processes started for it, which happens once."""


class EstimatedPart(msgspec.Struct, frozen=True):
    """What one part of the experiment will likely use: the target, or an evaluator."""

    name: str
    calls: float
    tokens: float | None
    cost: float | None


class Estimate(msgspec.Struct, frozen=True):
    """What a run will take, without retries and without answers from the cache."""

    items: int
    turns: int
    repetitions: int
    sampled: int
    """How many items were tried for this."""
    failed: int
    """How many of those failed; what they used counts, as it would in the run."""
    calls: EstimatedRange
    """Calls of the target and of models that judge. An output that is recorded is no call."""
    tokens: EstimatedRange | None
    """None when no part tells."""
    cost: EstimatedRange | None
    """None when no part has a price."""
    seconds: EstimatedRange | None
    """With the concurrency of the experiment; None when every sampled item failed."""
    parts: tuple[EstimatedPart, ...]
    """The target, and the evaluators that call a model or tell what they use."""
    without_tokens: tuple[str, ...] = ()
    """Parts that make calls and do not tell their tokens, which `tokens` lacks."""
    without_cost: Mapping[str, str] = {}
    """Parts that make calls of unknown cost, which `cost` lacks, and what would tell it."""


def estimate_of(
    measured: Sequence[MeasuredItem],
    *,
    items: int,
    turns: int,
    repetitions: int,
    concurrency: int,
    unpriced: Mapping[str, str],
) -> Estimate:
    """The estimate for so many items; `unpriced` says of parts why their cost is not known."""
    runs = items * repetitions
    names = dict.fromkeys(name for one in measured for name in one.parts)
    asking = [n for n in names if any(one.parts[n].calls for one in _having(measured, n))]
    return Estimate(
        items=items,
        turns=turns,
        repetitions=repetitions,
        sampled=len(measured),
        failed=sum(one.failed for one in measured),
        calls=whole([sum(part.calls for part in one.parts.values()) for one in measured], runs),
        tokens=_summed(measured, "tokens", runs),
        cost=_summed(measured, "cost", runs),
        seconds=_seconds(measured, runs, concurrency),
        parts=tuple(
            part
            for part in (_part(measured, name, runs) for name in names)
            if part.calls or part.tokens is not None or part.cost is not None
        ),
        without_tokens=tuple(n for n in asking if not _tells(measured, n, "tokens")),
        without_cost={
            name: unpriced.get(name, "it reports no cost")
            for name in asking
            if not _tells(measured, name, "cost")
        },
    )


def whole(sampled: Sequence[float], runs: int) -> EstimatedRange:
    """The sum over all runs of items, from a sample of them.

    The mean of the sample with Student's interval, corrected for the share of the items that was
    sampled: when all were, the sum is known. It is never below what the sample itself used.
    """
    count = len(sampled)
    likely = fmean(sampled) * runs
    least = math.fsum(sampled)
    if count >= runs:
        return EstimatedRange(likely, likely, likely)
    if count == 1:
        return EstimatedRange(likely, least, None)
    half = _T_95[count - 1] * stdev(sampled) * math.sqrt(1 / count - 1 / runs) * runs
    return EstimatedRange(likely, min(likely, max(least, likely - half)), likely + half)


def _summed(measured: Sequence[MeasuredItem], what: str, runs: int) -> EstimatedRange | None:
    """The sum of what the parts tell; None when none of them tells anything."""
    told = [_told(getattr(part, what) for part in one.parts.values()) for one in measured]
    if all(one is None for one in told):
        return None
    return whole([one or 0 for one in told], runs)


def _told(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _seconds(
    measured: Sequence[MeasuredItem], runs: int, concurrency: int
) -> EstimatedRange | None:
    """How long the run takes when so many items are worked on at once.

    An item that failed took as long as its failure, so only those that went well count. What the
    first one took longer than the others is the start, which the run has once.
    """
    well = [one for one in measured if not one.failed]
    if not well:
        return None
    took = [one.seconds for one in well if not one.is_first] or [one.seconds for one in well]
    first = [one.seconds for one in well if one.is_first]
    start = max(0.0, first[0] - fmean(took)) if first else 0.0
    side_by_side = min(concurrency, runs)
    together = whole(took, runs)
    longest = max(took)

    def shared(seconds: float) -> float:
        return start + max(longest, seconds / side_by_side)

    return EstimatedRange(
        shared(together.likely),
        shared(together.low),
        None if together.high is None else shared(together.high),
    )


def _part(measured: Sequence[MeasuredItem], name: str, runs: int) -> EstimatedPart:
    used = _having(measured, name)
    share = runs / len(measured)
    tokens = _told(one.parts[name].tokens for one in used)
    cost = _told(one.parts[name].cost for one in used)
    return EstimatedPart(
        name,
        sum(one.parts[name].calls for one in used) * share,
        None if tokens is None else tokens * share,
        None if cost is None else cost * share,
    )


def _having(measured: Sequence[MeasuredItem], name: str) -> list[MeasuredItem]:
    return [one for one in measured if name in one.parts]


def _tells(measured: Sequence[MeasuredItem], name: str, what: str) -> bool:
    return any(getattr(one.parts[name], what) is not None for one in _having(measured, name))
