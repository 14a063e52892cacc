"""How long the target took."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dragoman.lab.evaluators.evaluator import ComputesAtOnce, Score, judged
from dragoman.lab.evaluators.processes import FunctionProcessPool
from dragoman.lab.failures import EvaluatorFailure
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output


class LatencySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is fast enough."""

    max_ms: float | None = None
    """Label a turn `pass` when its call took no longer."""
    output: str | None = None
    """The output column with the milliseconds, such as the fleet's `queued_ms`; else the time of
    the target itself."""


def check(settings: LatencySettings, columns: Collection[str], context: Context) -> None:
    pass


class LatencyEvaluator(ComputesAtOnce):
    """The milliseconds of the target's call, as a score."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: LatencySettings, context: Context, processes: FunctionProcessPool
    ) -> None:
        self.name = name
        self._settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        took_ms = self._took_ms(output)
        if took_ms is None:
            raise EvaluatorFailure(
                "The output has no latency: the target made no call for it.", retryable=False
            )
        return Score(took_ms, judged(took_ms, self._settings.max_ms, higher_is_better=False))

    def _took_ms(self, output: Output) -> float | None:
        column = self._settings.output
        if column is None:
            return output.latency_ms
        found = output.columns.get(column)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise EvaluatorFailure(
                f"The output has no number of milliseconds in `{column}`; it has "
                f"{', '.join(output.columns)}.",
                retryable=False,
            )
        return float(found)

    async def close(self) -> None:
        pass
