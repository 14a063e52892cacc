"""The way from an instance to what it shares with others."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.simulation.shared_server import SharedServer

from dragoman.errors import DependencyDown


class Door:
    """An instance's way to what it shares with others; it can be slow, blocked or shut."""

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

    def to(self, room: Any, *own: str) -> Any:
        """The room, as this instance reaches it; own is what needs no way there."""
        return _Through(self, room, own)

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
    """A ledger or a place in the cluster, behind a door."""

    def __init__(self, door: Door, room: Any, own: tuple[str, ...]) -> None:
        self._door = door
        self._own = own
        self._room = room

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._room, name)
        if name in self._own or not inspect.iscoroutinefunction(found):
            return found

        async def through(*args: Any, **options: Any) -> Any:
            operation = getattr(self._room, name)
            return await self._door.go_through(self._room, lambda: operation(*args, **options))

        # From now on it is an attribute like any other, and is not looked for again.
        setattr(self, name, through)
        return through
