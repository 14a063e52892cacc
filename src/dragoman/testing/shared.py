"""The one server that the instances of a cluster share, and each instance's access to it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.cluster import MemoryHub
from dragoman.live.gateway import cluster_terms
from dragoman.live.ledger import MemoryLedger
from dragoman.live.sessions import MemoryRecords
from dragoman.settings import Settings
from dragoman.task_set import TaskSet

PATIENCE_SECONDS = 1.0
"""After so long without an answer an instance gives up; the server may still do as it was told."""


class SharedServer:
    """Ledger, records and hub in one place, as Redis keeps them; it can stop and go on."""

    def __init__(self, clock: Clock, seed: int, settings: Settings) -> None:
        self._clock = clock
        self._settings = settings
        self.ledger = self._new_ledger(Random(seed + 1))
        self.records = self._new_records()
        self.hub = MemoryHub(clock, Random(seed + 2), cluster_terms(settings))
        self._lives = 1
        self._running = asyncio.Event()
        self._running.set()
        self._unanswered: list[Callable[[], Awaitable[Any]]] = []
        self._late = TaskSet()

    async def answer(self, operation: Callable[[], Awaitable[Any]]) -> Any:
        """Do as an instance says, now or when the server goes on."""
        if not self._running.is_set():
            await self._wait_for_it(operation)
        return await operation()

    def stop(self) -> None:
        """Stand still: callers wait, and at last give up."""
        self._running.clear()

    def go_on(self) -> None:
        """Do at once what was asked in between, also for callers that gave up waiting."""
        for operation in self._unanswered:
            self._late.spawn(_do_late(operation))
        self._unanswered.clear()
        self._running.set()

    async def _wait_for_it(self, operation: Callable[[], Awaitable[Any]]) -> None:
        life = self._lives
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._running.wait()
        except TimeoutError:
            if life == self._lives:
                self._unanswered.append(operation)
            raise DependencyDown("The server did not answer in time.") from None
        if life != self._lives:
            raise DependencyDown("The server is another one by now.")

    def _new_ledger(self, random: Random) -> MemoryLedger:
        pools = self._settings.scheduler.pools
        return MemoryLedger(
            self._clock, random, cell_size=pools.cell_size, max_cells=pools.max_cells
        )

    def _new_records(self) -> MemoryRecords:
        return MemoryRecords(self._settings.limits.session_queue)


async def _do_late(operation: Callable[[], Awaitable[Any]]) -> None:
    with suppress(DependencyDown):
        await operation()


class ServerAccess:
    """An instance's access to the shared server; it can be slow, blocked or shut."""

    def __init__(self, server: SharedServer, random: Random) -> None:
        self._server = server
        self._random = random
        self.seconds = 0.0
        """How long a way may take, there and back each."""
        self.failures = 0.0
        """Share of operations that are lost on their way there, and of answers on theirs back."""
        self.dead = False
        self.shut = False
        """Nothing can be reached."""
        self.cut: set[object] = set()
        """What cannot be reached."""
        self.operations = 0
        """How many set out."""
        self.dies_at = 0
        """The operation that is the last; 0: none."""
        self.dies_before = False
        """Whether that operation takes effect."""
        self.on_death: Callable[[], None] = lambda: None
        self._open = asyncio.Event()
        self._open.set()

    def block(self) -> None:
        """As when the process is stopped: nothing goes through until it goes on."""
        self._open.clear()

    def unblock(self) -> None:
        self._open.set()

    def to(self, room: Any) -> Any:
        """The room, as this instance reaches it."""
        return _Through(self, room)

    async def go_through(self, room: object, operation: Callable[[], Awaitable[Any]]) -> Any:
        self.operations += 1
        last = self.operations == self.dies_at
        if last and self.dies_before:
            self._die()
        try:
            await self._way(room)
            answer = await self._server.answer(operation)
        finally:
            if last and not self.dead:
                self._die()
        await self._way(room)
        return answer

    async def _way(self, room: object) -> None:
        if self.seconds:
            await asyncio.sleep(self._random.random() * self.seconds)
        if not self.dead:
            await self._open.wait()
        if self.dead:
            raise DependencyDown("The instance is dead.")
        if self.shut or room in self.cut or self._fails():
            raise DependencyDown("There was no answer.")

    def _fails(self) -> bool:
        return self.failures > 0 and self._random.random() < self.failures

    def _die(self) -> None:
        self.dead = True
        self.on_death()


class _Through:
    """A ledger, records or a place in the cluster, as its instance reaches it."""

    def __init__(self, access: ServerAccess, room: Any) -> None:
        self._access = access
        self._room = room

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._room, name)
        if name in ("close", "listen") or not inspect.iscoroutinefunction(found):
            return found

        async def through(*args: Any, **options: Any) -> Any:
            operation = getattr(self._room, name)
            return await self._access.go_through(self._room, lambda: operation(*args, **options))

        # From now on it is an attribute like any other, and is not looked for again.
        setattr(self, name, through)
        return through
