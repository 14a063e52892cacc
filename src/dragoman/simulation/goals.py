"""Goals in words: ``p99 < 1500ms and refused < 0.1%``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.errors import SettingsError
from dragoman.simulation.figures import METRICS, UNITS, RunFigures, estimate
from dragoman.spelling import nearest

_CLAUSE = re.compile(
    r"\s*(?P<metric>[a-z][a-z0-9_]*)\s*(?P<sign><=|>=|<|>)\s*(?P<number>\d+(\.\d+)?)\s*"
    r"(?P<unit>ms|s|%)?\s*"
)
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXAMPLE = '"p99 < 1500ms and refused < 0.1%"'


@dataclass(frozen=True)
class Clause:
    """One figure and its bound, in the figure's own unit."""

    metric: str
    sign: str
    bound: float

    def value(self, runs: Sequence[RunFigures]) -> float:
        """The figure over the runs."""
        if self.metric == "refused":
            # Of everything that was asked for: runs with little traffic count for little.
            asked = sum(run.whole.asked for run in runs)
            return 100 * sum(run.whole.refused for run in runs) / asked if asked else 0.0
        return estimate([METRICS[self.metric](run) for run in runs]).mean

    def is_met(self, runs: Sequence[RunFigures]) -> bool:
        return _SIGNS[self.sign](self.value(runs), self.bound)

    def excess(self, runs: Sequence[RunFigures]) -> float:
        """How far the figure is on the wrong side of its bound, as a share of the bound.

        Below 0 while it is met; the nearer to 0, the nearer it is to being broken.
        """
        value, scale = self.value(runs), self.bound or 1.0
        return (value - self.bound if "<" in self.sign else self.bound - value) / scale

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}{UNITS[self.metric]}"


@dataclass(frozen=True)
class Goal:
    """Clauses that must all hold."""

    clauses: tuple[Clause, ...] = ()

    def is_met(self, runs: Sequence[RunFigures]) -> bool:
        return all(clause.is_met(runs) for clause in self.clauses)

    def broken(self, runs: Sequence[RunFigures]) -> list[Clause]:
        """The clauses that do not hold."""
        return [clause for clause in self.clauses if not clause.is_met(runs)]

    def excess(self, runs: Sequence[RunFigures]) -> float:
        """The worst clause's."""
        return max((clause.excess(runs) for clause in self.clauses), default=-1.0)

    def __str__(self) -> str:
        return " and ".join(map(str, self.clauses))


def read_goal(text: str, option: str = "--plan") -> Goal:
    """Read a goal; raises SettingsError that says which part makes no sense, and why."""
    clauses = []
    for part in re.split(r"\band\b|,", text):
        found = _CLAUSE.fullmatch(part)
        if found is None:
            raise SettingsError(
                f"{option}: {part.strip() or text!r} is not a figure and its bound; write it as"
                f" {_EXAMPLE}."
            )
        clauses.append(_clause(found, option))
    return Goal(tuple(clauses))


def _clause(found: re.Match[str], option: str) -> Clause:
    metric, number, unit = found["metric"], float(found["number"]), found["unit"]
    if metric not in METRICS:
        meant = nearest(metric, list(METRICS))
        hint = f"did you mean `{meant}`?" if meant else f"known are: {', '.join(METRICS)}."
        raise SettingsError(f"{option}: there is no figure `{metric}`; {hint}")
    own = UNITS[metric]
    if own == "ms" and unit == "s":
        number, unit = number * 1000, "ms"
    if unit is not None and unit != own:
        wanted = f"in {own}" if own else "a plain number"
        raise SettingsError(f"{option}: `{metric}` is {wanted}, not in {unit}.")
    if own == "ms" and unit is None:
        raise SettingsError(f"{option}: `{metric}` needs a unit: {number:g}ms or {number:g}s.")
    if own == "%" and unit is None:
        raise SettingsError(f"{option}: `{metric}` needs a unit: {number:g}%.")
    return Clause(metric, found["sign"], number)
