"""What came over a socket and waits to be handled, for one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Arrivals:
    """An asyncio.Queue for one reader, as far as a socket needs it, at a fraction of the price."""

    __slots__ = ("_loop", "_waiter", "items", "on_arrival", "stalled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self.items: deque[Any] = deque()
        self.stalled = False
        """The socket is not read until everything that came was handled."""
        self.on_arrival: Callable[[], None] = self._wake
        """Called when something came: wakes the reader, unless a consumer takes them from here."""

    def put_nowait(self, item: Any) -> None:
        self.items.append(item)
        self.on_arrival()

    async def get(self) -> Any:
        while not self.items:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self.items.popleft()

    def empty(self) -> bool:
        return not self.items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
