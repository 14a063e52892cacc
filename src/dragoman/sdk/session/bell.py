"""Wakes tasks that wait for a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Bell:
    """Rung at every change; a task that waits goes on only when its condition holds by then."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def ring(self) -> None:
        for condition, woken in self._waiting:
            if not woken.done() and condition():
                woken.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it may only change together with a ring."""
        while not condition():
            waiting = condition, asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting[1]
            finally:
                self._waiting.remove(waiting)
