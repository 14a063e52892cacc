"""A ledger as it is behind a network: answers take time, and sometimes none comes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

from dragoman.errors import DependencyDown
from dragoman.live.shared import SharedLedger

_ARRIVE_LATE = 0.5
"""Of the operations that are lost on their way there."""
_LATE_SECONDS = 2.0


class FarLedger:
    """Delays every operation on its way there and back, which lets others come in between.

    With a share of failures, an operation is lost on its way there, or its answer on the way
    back, or the operation arrives when its asker has given up: the asker cannot tell which.
    """

    def __init__(
        self, ledger: SharedLedger, random: Random, *, seconds: float, failures: float = 0.0
    ) -> None:
        self._ledger = ledger
        self._random = random
        self._seconds = seconds
        self.failures = failures
        self._late: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._ledger, name)
        if name == "stop" or not inspect.iscoroutinefunction(operation):
            return operation

        async def at_a_distance(*args: Any, **options: Any) -> Any:
            try:
                await self._travel()
            except DependencyDown:
                if self._random.random() < _ARRIVE_LATE:
                    self._carry_out_late(lambda: operation(*args, **options))
                raise
            answer = await operation(*args, **options)
            await self._travel()
            return answer

        return at_a_distance

    def _carry_out_late(self, operation: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        delay = self._random.random() * _LATE_SECONDS
        asyncio.get_running_loop().call_later(delay, self._carry_out, operation)

    def _carry_out(self, operation: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        task = asyncio.get_running_loop().create_task(operation())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.random() * self._seconds)
        if self._random.random() < self.failures:
            raise DependencyDown("The ledger did not answer.")


def far(
    random: Random, *, seconds: float, failures: float = 0.0
) -> Callable[[SharedLedger], SharedLedger]:
    """Puts a ledger at a distance."""
    return lambda ledger: cast(
        SharedLedger, FarLedger(ledger, random, seconds=seconds, failures=failures)
    )
