"""One score out of several: the weighted mean of what other evaluators said of the same turn."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import msgspec

from dragoman.errors import InvalidMessage
from dragoman.lab.evaluators.evaluator import ComputesAtOnce, Score, judged
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output

KIND = "composite"


class CompositeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is combined, and how much each counts."""

    weights: dict[str, float] | None = None
    """The weight of each score by its name. Left out: every other evaluator of the experiment,
    with its `weight`."""
    scales: dict[str, tuple[float, float]] = {}
    """Of scores that are not 0 to 1 anyway: which value is worst and which is best, as in
    `{"chrf": [0, 100], "wer": [1, 0]}`. They then count from 0 to 1."""
    threshold: float | None = None
    """Label a turn `pass` when its score reaches this."""


def check(settings: CompositeSettings, columns: Collection[str], context: Context) -> None:
    if not settings.weights:
        raise _refusal("weights", "has no scores to combine; name some, or add evaluators")
    for name, weight in settings.weights.items():
        if not 0 < weight < math.inf:
            raise _refusal("weights", f"gives {name!r} the weight {weight:g}, which is not above 0")
    for name, (worst, best) in settings.scales.items():
        if name not in settings.weights:
            raise _refusal("scales", f"names {name!r}, which is not combined")
        if worst == best or not (math.isfinite(worst) and math.isfinite(best)):
            raise _refusal("scales", f"has no scale for {name!r}: worst and best have to differ")


class CompositeEvaluator(ComputesAtOnce):
    """Computed after the others; it has no score while one of them has none."""

    cpu_bound = False

    def __init__(
        self,
        name: str,
        settings: CompositeSettings,
        context: Context,
        processes: FunctionProcessPool,
    ) -> None:
        self.name = name
        self._settings = settings
        self._weights: Mapping[str, float] = settings.weights or {}

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the scores that it combines."""
        return tuple(self._weights)

    async def score(self, turn: Turn, output: Output) -> Score:
        raise EvaluatorFailure(
            f"A composite has no score without those of {', '.join(self.needs)}.", retryable=False
        )

    def combine(self, scores: Mapping[str, Score]) -> Score:
        """The weighted mean; `EvaluatorFailure` when a score is missing."""
        total = 0.0
        for name, weight in self._weights.items():
            found = scores.get(name)
            if found is None or found.score is None:
                said = "is missing" if found is None else "is a label without a number"
                raise EvaluatorFailure(
                    f"The score {name!r} {said}, and there is no mean without it.", retryable=False
                )
            total += weight * self._scaled(name, found.score)
        mean = total / sum(self._weights.values())
        return Score(mean, judged(mean, self._settings.threshold, higher_is_better=True))

    async def close(self) -> None:
        pass

    def _scaled(self, name: str, score: float) -> float:
        worst, best = self._settings.scales.get(name, (0.0, 1.0))
        return (score - worst) / (best - worst)


def _refusal(field: str, reason: str) -> InvalidMessage:
    return InvalidMessage(f"`evaluator.{field}` {reason}.", details={"field": f"evaluator.{field}"})
