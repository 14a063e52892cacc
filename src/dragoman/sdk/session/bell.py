"""Wakes tasks that wait for a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Bell:
    """Rung at every change; each waiting task checks whether its condition holds now."""

    def __init__(self) -> None:
        self._next_ring = asyncio.Event()

    def ring(self) -> None:
        self._next_ring.set()
        self._next_ring = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it may only change together with a ring."""
        while not condition():
            await self._next_ring.wait()
