"""The one server that instances share, as Redis is: it can stop, restart empty, or fail over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.cluster import MemoryHub
from dragoman.live.gateway import cluster_terms, rules
from dragoman.live.shared import MemorySharedLedger
from dragoman.settings import Settings

PATIENCE_SECONDS = 1.0
"""After so long without an answer an instance gives up; the server may still do as it was told."""

_OF_THE_HUB = ("instances", "finished", "letters", "windows", "blocks")
"""What a hub keeps; who listens to it is no part of its memory."""

Memory = dict[str, dict[str, Any]]


class SharedServer:
    """Ledger and hub in one place: they stop together, and forget together."""

    def __init__(self, clock: Clock, seed: int, settings: Settings) -> None:
        self._clock = clock
        self._random = Random(f"{seed}/server")
        self._settings = settings
        self.ledger = self._new_ledger(Random(seed + 1))
        self.hub = MemoryHub(clock, Random(seed + 2), cluster_terms(settings))
        self.forgot_at: list[float] = []
        """When it lost something that it had confirmed."""
        self._lives = 1
        self._running = asyncio.Event()
        self._running.set()
        self._unanswered: list[Callable[[], Awaitable[Any]]] = []
        self._late: set[asyncio.Task[None]] = set()

    async def answer(self, operation: Callable[[], Awaitable[Any]]) -> Any:
        """Do as an instance says, now or when the server goes on."""
        if not self._running.is_set():
            await self._wait_for_it(operation)
        return await operation()

    def stop(self) -> None:
        """Stand still: callers wait, and at last give up."""
        self._running.clear()

    def go_on(self) -> None:
        """Do at once what was asked in between, also for those that gave up waiting."""
        for operation in self._unanswered:
            task = asyncio.get_running_loop().create_task(_do_late(operation))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        self._unanswered.clear()
        self._running.set()

    def restart_empty(self) -> None:
        """Lose everything."""
        ledger = self._new_ledger(self.ledger._random)
        # As on Redis, a cell that lost its memory does not repeat a version.
        ledger._retired_version = self._random.getrandbits(32)
        vars(self.ledger).update(vars(ledger))
        self.hub.forget()
        self._begin_again()

    @property
    def held(self) -> int:
        """Slots that are held, in all cells."""
        return sum(len(cell.held) for cell in self.ledger._cells.values())

    def forget_jobs(self) -> None:
        """The ledger loses everything, and its server goes on as if nothing had happened."""
        vars(self.ledger).update(vars(self._new_ledger(self.ledger._random)))

    def memory(self) -> Memory:
        """All that it knows now, as a replica that has got this far."""
        known = [*self.hub.instances.values(), *self.hub.finished.values()]
        # The copy tells the time by the same clock, and wakes the same readers.
        shared = [self._clock, self.ledger._random, *(one.inbox.news for one in known)]
        return deepcopy(
            {
                "ledger": vars(self.ledger),
                "hub": {name: getattr(self.hub, name) for name in _OF_THE_HUB},
            },
            {id(thing): thing for thing in shared},
        )

    def fail_over(self, replica: Memory) -> None:
        """A replica takes its place, and knows nothing of what came after."""
        vars(self.ledger).update(replica["ledger"])
        vars(self.hub).update(replica["hub"])
        self._begin_again()

    def _begin_again(self) -> None:
        """Every connection is broken; what was asked over one is not known any more."""
        self.forgot_at.append(self._clock.monotonic())
        self._lives += 1
        self._unanswered.clear()
        self._running.set()
        self.hub.come_back()

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

    def _new_ledger(self, random: Random) -> MemorySharedLedger:
        return shared_ledger(self._clock, random, self._settings)


def shared_ledger(clock: Clock, random: Random, settings: Settings) -> MemorySharedLedger:
    """A ledger as the settings ask for one."""
    pools = settings.scheduler.pools
    return MemorySharedLedger(
        clock,
        random,
        keep_delivered=settings.limits.session_queue,
        session_ms=rules.session_record_ms(settings),
        cell_size=pools.cell_size,
        max_cells=pools.max_cells,
    )


async def _do_late(operation: Callable[[], Awaitable[Any]]) -> None:
    with suppress(DependencyDown):
        await operation()
