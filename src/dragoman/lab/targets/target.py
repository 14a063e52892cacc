"""What every target can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dragoman.lab.model import Turn
from dragoman.lab.targets.outputs import Output, PastTurn


class Target(Protocol):
    """Something that answers turns, many at once."""

    async def call(self, turn: Turn, history: Sequence[PastTurn]) -> Output:
        """The answer to a turn; `TargetError` when there is none, `RateLimited` when not now."""
        ...

    async def close(self) -> None: ...
