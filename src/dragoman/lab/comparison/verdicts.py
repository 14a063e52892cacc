"""Whether a run is not worse than the baseline: passed, failed, or neither can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.comparison.numbers import figure, signed

if TYPE_CHECKING:
    from dragoman.lab.comparison.compared import Change
    from dragoman.lab.statistics import Difference

ALPHA = 0.05


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run, in words too."""

    metric: str
    run: str
    verdict: Literal["pass", "fail", "inconclusive"]
    told: str
    more_items: int | None = None
    """How many more items would most likely decide, where so many do not."""

    @property
    def is_inconclusive(self) -> bool:
        return self.verdict == "inconclusive"

    def fails(self, on_inconclusive: Literal["pass", "fail"]) -> bool:
        """Whether it counts as a failure."""
        return self.verdict == "fail" or (self.is_inconclusive and on_inconclusive == "fail")

    def __str__(self) -> str:
        return self.told


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values of questions that are asked at once (Holm)."""
    from dragoman.lab.statistics import holm  # here: it needs the extra `lab`

    return holm(p_values)


def judge_not_worse(
    metric: str,
    run: str,
    baseline: str,
    change: Change,
    p: float | None,
    *,
    higher_is_better: bool | None,
    margin: float | None,
    alpha: float = ALPHA,
) -> Standing:
    """Judge one figure; `p` is corrected for the questions that are asked with this one."""
    from dragoman.lab.statistics import items_needed, not_worse  # here: it needs the extra `lab`

    if higher_is_better is None:
        raise InvalidMessage(
            f"Neither end of {metric} is the better one, so it cannot be better or worse; "
            "choose another score."
        )
    if margin is not None and not 0 < margin < float("inf"):
        raise InvalidMessage(f"The margin is {margin:g}; give one above 0, or leave it out.")
    if not 0 < alpha < 1:
        raise InvalidMessage(f"alpha is {alpha:g}; it must lie between 0 and 1.")
    if change.paired == 0:
        told = f"{metric} cannot be compared: no item has it in both {run!r} and {baseline!r}."
        return Standing(metric=metric, run=run, verdict="fail", told=told)
    found = _difference(change, p)
    verdict: Literal["pass", "fail", "inconclusive"] = not_worse(
        found, margin=margin or 0.0, alpha=alpha, higher_is_better=higher_is_better
    ).value
    by = "" if margin is None else f" by more than {margin:g}"
    said = {
        "pass": f"{metric} is not worse{by}",
        "fail": f"{metric} is {'significantly ' if margin is None else ''}worse{by}",
        "inconclusive": f"{metric} may be worse{by} or not",
    }[verdict]
    seen = (
        f"{figure(change.other)} in {run!r} against {figure(change.baseline)} in {baseline!r}, "
        f"a difference of {signed(change.delta)} ({_certainty(change, p)}) over "
        f"{change.paired:,} paired turns."
    )
    if verdict != "inconclusive":
        return Standing(metric=metric, run=run, verdict=verdict, told=f"{said}: {seen}")
    needed = None
    if found.error is not None:
        needed = items_needed(
            found, margin=margin or 0.0, alpha=alpha, higher_is_better=higher_is_better
        )
    more = None if needed is None else max(1, needed - change.paired)
    hope = "One pair says nothing about chance; add items."
    if found.error is not None:
        hope = (
            "The difference is the margin itself: no number of items would decide."
            if more is None
            else f"About {more:,} more would decide."
        )
    told = f"{said}: {seen} {hope}"
    return Standing(metric=metric, run=run, verdict=verdict, told=told, more_items=more)


def _certainty(change: Change, p: float | None) -> str:
    parts = []
    if change.ci95 is not None:
        parts.append(f"95 % interval {signed(change.ci95[0])} to {signed(change.ci95[1])}")
    if p is not None:
        parts.append(f"p {p:.2g}")
    return ", ".join(parts) or "how certain is not known"


def _difference(change: Change, p: float | None) -> Difference:
    from dragoman.lab.statistics import Difference, Interval

    return Difference(
        count=change.paired,
        units=change.units,
        delta=0.0 if change.delta is None else change.delta,
        ci95=None if change.ci95 is None else Interval(*change.ci95),
        p=p,
        effect=change.effect_size,
        wins=change.wins,
        losses=change.losses,
        ties=change.ties,
        detectable=change.detectable,
        error=change.standard_error,
    )
