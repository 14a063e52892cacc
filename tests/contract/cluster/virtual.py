"""Instances on the virtual clock: each with its membership, its reader, and what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from tests.contract.cluster.bench import CARD

from dragoman.ids import InstanceId
from dragoman.live.cluster import (
    Card,
    CleanUp,
    ClusterTerms,
    Fence,
    InboxReader,
    Membership,
    MemoryHub,
    Note,
    Pulse,
)
from dragoman.observability import Metrics
from dragoman.testing import VirtualClock

TERMS = ClusterTerms()
PRESENCE_SECONDS = TERMS.presence_ttl_ms / 1000
OWNER_SECONDS = TERMS.owner_ttl_ms / 1000
RENEW_SECONDS = PRESENCE_SECONDS / 3


def make_hub(seed: int = 1, terms: ClusterTerms = TERMS) -> MemoryHub:
    """A cluster on the running virtual loop."""
    return MemoryHub(VirtualClock(asyncio.get_running_loop()), Random(seed), terms)


class Live:
    """An instance that lives, and remembers what it was told."""

    def __init__(
        self,
        hub: MemoryHub,
        name: str,
        handle: Callable[[Note, float], Awaitable[None]] | None = None,
    ) -> None:
        self._hub = hub
        self.cluster = hub.peers(InstanceId(name))
        self.metrics = Metrics()
        self.pulse = Pulse(hub.terms.presence_ttl_ms / 1000, hub.clock.monotonic())
        self.membership = Membership(
            self.cluster, self, pulse=self.pulse, clock=hub.clock, terms=hub.terms
        )
        self.reader = InboxReader(
            self.cluster,
            handle or self._handle,
            pulse=self.pulse,
            clock=hub.clock,
            terms=hub.terms,
            metrics=self.metrics,
        )
        self.notes: list[Note] = []
        self.fences: list[Fence] = []
        self.inherited: list[tuple[InstanceId, tuple[Note, ...]]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.membership.join()
        self._tasks = [
            asyncio.create_task(self.membership.run()),
            asyncio.create_task(self.reader.run()),
        ]

    async def crash(self) -> None:
        """End without a word."""
        self._hub.faults.pause(self.cluster.instance_id)
        for task in self._tasks:
            task.cancel()
        # A dead process strikes nothing out.
        self._hub.faults.resume(self.cluster.instance_id)
        down, self._hub.faults.down = self._hub.faults.down, True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hub.faults.down = down

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.membership.leave()

    def card(self) -> Card:
        return CARD

    async def fence(self, why: Fence) -> None:
        self.fences.append(why)

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        self.inherited.append((gone.instance_id, notes))

    async def _handle(self, note: Note, age_seconds: float) -> None:
        self.notes.append(note)
