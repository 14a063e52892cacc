"""The interface of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.lab.model import Turn
from dragoman.lab.targets.outputs import Output, PastTurn


class Target(Protocol):
    """Answers turns, many at once."""

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        """The answer; raises `TargetError` on failure, `RateLimited` to be called later."""
        ...

    async def close(self) -> None: ...
