"""Outputs that are already in the dataset, which only need scoring."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from dragoman.lab.failures import TargetError
from dragoman.lab.model import Turn
from dragoman.lab.plugins import Context, require_column
from dragoman.lab.targets.outputs import MAIN_COLUMN, Output, PastTurn


class RecordedTargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the outputs are."""

    output: str
    """The column that holds the output."""


def check(settings: RecordedTargetSettings, columns: Collection[str], context: Context) -> None:
    require_column(settings.output, columns, "target.output")


class RecordedTarget:
    """Answers a turn with the output recorded in it."""

    def __init__(self, settings: RecordedTargetSettings, context: Context) -> None:
        self._column = settings.output

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        if self._column not in turn:
            raise TargetError(f"The turn has no column `{self._column}`.", retryable=False)
        return Output({MAIN_COLUMN: turn[self._column]})

    async def close(self) -> None:
        pass
