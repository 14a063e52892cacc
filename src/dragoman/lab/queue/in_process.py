"""The queue inside one process."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from dragoman.lab.feed import Change
from dragoman.lab.model import RunId
from dragoman.lab.queue.interface import ItemOffer

Hint = TypeVar("Hint", bound=Hashable)

UNREAD_HINTS_MAX = 1_000
"""Hints kept for a reader; a process that only schedules, or only works, has none for some."""


class InProcessTopic(Generic[Hint]):
    """Hints for one reader, each kept once until it is read; the oldest are dropped first."""

    def __init__(self) -> None:
        self._waiting: dict[Hint, None] = {}
        self._some = asyncio.Event()

    def put(self, hint: Hint) -> None:
        self._waiting[hint] = None
        if len(self._waiting) > UNREAD_HINTS_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._some.set()

    async def take(self) -> Sequence[Hint]:
        await self._some.wait()
        self._some.clear()
        taken, self._waiting = list(self._waiting), {}
        return taken


class UnheardTopic(Generic[Hint]):
    """Hints for other instances, where there are none."""

    def put(self, hint: Hint) -> None:
        """There is no reader."""

    async def take(self) -> Sequence[Hint]:
        await asyncio.get_running_loop().create_future()
        return ()


class InProcessQueue:
    """A scheduler and a worker that share an event loop."""

    gives_offers_once = False

    def __init__(self) -> None:
        self.offers: InProcessTopic[ItemOffer] = InProcessTopic()
        self.stops: InProcessTopic[RunId] = InProcessTopic()
        self.news: InProcessTopic[RunId] = InProcessTopic()
        self.changes: UnheardTopic[Change] = UnheardTopic()

    async def take_offers(self, items: int) -> Sequence[ItemOffer]:
        return await self.offers.take()

    async def close(self) -> None:
        """Nothing is open."""
