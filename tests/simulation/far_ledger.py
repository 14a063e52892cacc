"""A ledger as it is behind a network: answers take time, and sometimes none comes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from random import Random
from typing import Any, cast

from dragoman.errors import DependencyDown
from dragoman.live.ledger import Ledger


class FarLedger:
    """Delays every operation on its way there and back, which lets others come in between.

    With a share of failures, an operation is lost on its way there, or its answer on the way
    back: the asker cannot tell which.
    """

    def __init__(
        self, ledger: Ledger, random: Random, *, seconds: float, failures: float = 0.0
    ) -> None:
        self._ledger = ledger
        self._random = random
        self._seconds = seconds
        self.failures = failures

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._ledger, name)
        if name == "close" or not inspect.iscoroutinefunction(operation):
            return operation

        async def at_a_distance(*args: Any, **options: Any) -> Any:
            await self._travel()
            answer = await operation(*args, **options)
            await self._travel()
            return answer

        return at_a_distance

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.random() * self._seconds)
        if self._random.random() < self.failures:
            raise DependencyDown("The ledger did not answer.")


def far(random: Random, *, seconds: float, failures: float = 0.0) -> Callable[[Ledger], Ledger]:
    """Puts a ledger at a distance."""
    return lambda ledger: cast(
        Ledger, FarLedger(ledger, random, seconds=seconds, failures=failures)
    )
