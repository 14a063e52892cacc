"""What nodes said while the ledger did not answer: told again, for as long as it may matter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DependencyDown

SOONEST_SECONDS = 0.5
LATEST_SECONDS = 4.0
"""A ledger that is overwhelmed is asked less and less often."""


class Retelling:
    """Keeps a node's word until the ledger has heard it.

    A node says a thing once. Were it lost, the attempt would be made again, and not before the
    node's next heartbeat shows that it is over.
    """

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
        *,
        for_seconds: float,
    ) -> None:
        self._spawn = spawn
        self._clock = clock
        self._for_seconds = for_seconds

    def later(self, tell: Callable[[], Awaitable[object]]) -> None:
        """Tell it again soon; telling what is known already must do no harm."""
        self._spawn(self._until_heard(tell))

    async def _until_heard(self, tell: Callable[[], Awaitable[object]]) -> None:
        until = self._clock.monotonic() + self._for_seconds
        wait = SOONEST_SECONDS
        while self._clock.monotonic() < until:
            await asyncio.sleep(wait)
            try:
                await tell()
            except DependencyDown:
                wait = min(2 * wait, LATEST_SECONDS)
                continue
            return
