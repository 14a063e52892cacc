"""An estimate in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.lab.estimates import TARGET, Estimate, EstimatedPart, EstimatedRange
from dragoman.lab.report import shown_duration


def estimate_lines(estimate: Estimate) -> list[str]:
    """The estimate, one figure a line, each with its range."""
    repeated = f", each {estimate.repetitions:,} times" if estimate.repetitions > 1 else ""
    lines = [
        f"Reckoned from {estimate.sampled:,} of {_items(estimate.items)}{repeated}, a run takes:",
        f"  calls   {_shown(estimate.calls, _count)}",
        f"  tokens  {_shown(estimate.tokens, _count, lacking=estimate.without_tokens)}",
        f"  cost    {_shown(estimate.cost, shown_cost, lacking=estimate.without_cost)}",
        f"  time    {_shown(estimate.seconds, shown_duration)}",
    ]
    if len(estimate.parts) > 1:
        lines += [f"  of which {_part(part)}" for part in estimate.parts]
    lines += [
        f"The cost of {_named(name)} is not known: {why}."
        for name, why in estimate.without_cost.items()
    ]
    return lines


def question(estimate: Estimate) -> str:
    """What a person is asked before a run that takes much."""
    told = [f"about {_count(estimate.calls.likely)} calls"]
    if estimate.tokens is not None:
        told.append(f"about {_count(estimate.tokens.likely)} tokens")
    if estimate.cost is not None:
        told.append(f"a cost of about {shown_cost(estimate.cost.likely)}")
    if estimate.seconds is not None:
        told.append(f"about {shown_duration(estimate.seconds.likely)}")
    return f"This run will take {_listed(told)}. Go on?"


def shown_cost(cost: float) -> str:
    """A cost as people read it: two decimals, or enough digits to see a small one."""
    return f"{cost:,.2f}" if cost >= 1 or cost == 0 else f"{cost:.2g}"


def _shown(
    found: EstimatedRange | None, show: Callable[[float], str], *, lacking: Iterable[str] = ()
) -> str:
    if found is None:
        return "not known"
    text = f"about {show(found.likely)}"
    if found.high is None:
        text = f"{text} (at least {show(found.low)})"
    elif (low := show(found.low)) != (high := show(found.high)):
        text = f"{text} ({low} to {high})"
    names = [_named(name) for name in lacking]
    return f"{text}, without {_listed(names)}" if names else text


def _part(part: EstimatedPart) -> str:
    told = [f"{_count(part.calls)} calls"]
    if part.tokens is not None:
        told.append(f"{_count(part.tokens)} tokens")
    if part.cost is not None:
        told.append(f"cost {shown_cost(part.cost)}")
    return f"{_named(part.name)}: {', '.join(told)}"


def _count(figure: float) -> str:
    return f"{round(figure):,}"


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"


def _named(name: str) -> str:
    return "the target" if name == TARGET else name


def _listed(parts: list[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
