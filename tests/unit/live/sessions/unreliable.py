"""A shared ledger that is slow, loses questions and answers, hears some twice, and may forget."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.shared import MemorySharedLedger

SESSION_MS = 600_000
KEEP_DELIVERED = 8


class Unreliable:
    """One instance's way to a ledger in memory. Every step there stays atomic.

    A call that is lost fails; whether it was carried out, the caller cannot know. It may also be
    carried out later, when the caller has long given up.
    """

    def __init__(self, ledger: MemorySharedLedger, random: Random) -> None:
        self.ledger = ledger
        self.random = random
        self.loses = 0.0
        """The share of calls that fail."""
        self.repeats = 0.0
        """The share of calls that are carried out once more, some time later."""
        self.longest_seconds = 0.0
        self.is_away = False
        self.calls: list[str] = []
        self.after: Callable[[str], None] = lambda name: None
        """Told of every call that was carried out."""
        self._late: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            return await self._call(name, lambda: getattr(self.ledger, name)(*args, **options))

        return call

    async def _call(self, name: str, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        random = self.random
        self.calls.append(name)
        await self._travel()
        if self.is_away or random.random() < self.loses / 2:
            if not self.is_away and random.random() < 0.3:
                self._later(ask)
            raise DependencyDown(f"{name} was not answered")
        answer = await ask()
        self.after(name)
        if random.random() < self.repeats:
            self._later(ask)
        await self._travel()
        if random.random() < self.loses / 2:
            raise DependencyDown(f"the answer to {name} was lost")
        return answer

    async def _travel(self) -> None:
        if self.longest_seconds:
            await asyncio.sleep(self.random.random() * self.longest_seconds)

    def _later(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async def late() -> None:
            await asyncio.sleep(self.random.random() * 2)
            if not self.is_away:
                await ask()

        task = asyncio.get_running_loop().create_task(late())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


def shared_ledger(clock: Clock, random: Random) -> MemorySharedLedger:
    return MemorySharedLedger(clock, random, keep_delivered=KEEP_DELIVERED, session_ms=SESSION_MS)


def memory_of(ledger: MemorySharedLedger) -> Any:
    """All that the ledger has stored."""
    return {
        number: copy.deepcopy(shard)
        for number, shard in enumerate(ledger._shards)
        if shard.jobs or shard.sessions
    }


def go_back(ledger: MemorySharedLedger, memory: Any) -> None:
    """As a server that fails over to a replica which is behind."""
    forget_everything(ledger)
    for number, shard in memory.items():
        ledger._shards[number] = copy.deepcopy(shard)


def forget_everything(ledger: MemorySharedLedger) -> None:
    """As a server that is restarted empty."""
    for shard in ledger._shards:
        shard.jobs.clear()
        shard.requests.clear()
        shard.sessions.clear()
