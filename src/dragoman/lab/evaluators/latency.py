"""How long the target took."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from dragoman.lab.evaluators.evaluator import Score, judged
from dragoman.lab.evaluators.processes import ProcessPool
from dragoman.lab.failures import EvaluatorError
from dragoman.lab.model import Turn
from dragoman.lab.targets import Context, Output


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is fast enough."""

    max_ms: float | None = None
    """Label a turn `pass` when its call took no longer."""


def check(settings: Settings, columns: Collection[str], context: Context) -> None:
    pass


class LatencyEvaluator:
    """The milliseconds of the target's call, as a score."""

    cpu_bound = False

    def __init__(
        self, name: str, settings: Settings, context: Context, processes: ProcessPool
    ) -> None:
        self.name = name
        self._settings = settings

    async def score(self, turn: Turn, output: Output) -> Score:
        took_ms = output.latency_ms
        if took_ms is None:
            raise EvaluatorError(
                "The output has no latency: the target made no call for it.", retryable=False
            )
        return Score(took_ms, judged(took_ms, self._settings.max_ms, higher_is_better=False))

    async def close(self) -> None:
        pass
