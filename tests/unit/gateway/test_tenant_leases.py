"""A tenant's limit is shared out in blocks: most of what is new asks no other instance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from dragoman.clock import ManualClock
from dragoman.errors import DependencyDown, RateLimited
from dragoman.ids import InstanceId, JobId, TenantId
from dragoman.live.cluster import Block, Limited, MemoryHub, MemoryPeers
from dragoman.live.gateway.cluster.tenant_leases import BLOCKS_IN_LIMIT, TenantLeases

ACME = TenantId("acme")


class Instance:
    """An instance's counts, and how often it asked for them."""

    def __init__(self, hub: MemoryHub, name: str, limit: int) -> None:
        self._peers: MemoryPeers = hub.peers(InstanceId(name))
        self.asked = 0
        self.leases: TenantLeases[JobId] = TenantLeases(Limited.IN_FLIGHT, self, limit)  # type: ignore[arg-type]

    async def hold(self, *args: Any, **more: Any) -> Block:
        self.asked += 1
        return await self._peers.hold(*args, **more)

    async def take(self, *numbers: int) -> int:
        """How many of these jobs are not refused."""
        taken = 0
        for number in numbers:
            try:
                await self.leases.acquire(ACME, JobId(f"j-{number}"))
            except RateLimited:
                continue
            taken += 1
        return taken

    def end(self, *numbers: int) -> None:
        for number in numbers:
            self.leases.release(ACME, JobId(f"j-{number}"))


def play(story: Callable[[MemoryHub], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(MemoryHub(ManualClock(), Random(1)))

    asyncio.run(run())


async def settle(*instances: Instance) -> None:
    """Let them tell what changed."""
    tasks = [asyncio.create_task(each.leases.run()) for each in instances]
    for _ in range(20):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def held(hub: MemoryHub) -> int:
    return sum(size for blocks in hub.blocks.values() for size, _ in blocks.values())


def test_a_block_serves_many_jobs() -> None:
    async def story(hub: MemoryHub) -> None:
        limit = 100 * BLOCKS_IN_LIMIT
        one = Instance(hub, "one", limit)
        assert await one.take(*range(500)) == 500
        assert one.asked <= 500 / 100
        one.end(*range(500))
        await settle(one)
        assert held(hub) == 0

    play(story)


def test_a_small_limit_is_exact() -> None:
    async def story(hub: MemoryHub) -> None:
        one, other = Instance(hub, "one", 5), Instance(hub, "other", 5)
        assert await one.take(1, 2, 3) == 3
        assert await other.take(4, 5, 6) == 2
        one.end(1)
        await settle(one)
        assert await other.take(6, 7) == 1

    play(story)


def test_instances_together_never_have_more_than_the_limit() -> None:
    async def story(hub: MemoryHub) -> None:
        limit = 3 * BLOCKS_IN_LIMIT
        instances = [Instance(hub, name, limit) for name in ("one", "two", "three")]
        taken = await asyncio.gather(
            *(each.take(*range(1000 * k, 1000 * k + 90)) for k, each in enumerate(instances))
        )
        assert sum(taken) <= limit
        # What is refused is at most what the others keep in hand.
        assert sum(taken) >= limit - 3 * limit // BLOCKS_IN_LIMIT
        assert held(hub) <= limit

    play(story)


def test_what_goes_on_here_counts_whatever_the_limit() -> None:
    async def story(hub: MemoryHub) -> None:
        one, other = Instance(hub, "one", 2), Instance(hub, "other", 2)
        assert await one.take(1, 2) == 2
        for number in (1, 2, 3):
            other.leases.adopt(ACME, JobId(f"j-{number}"))
        await settle(other)
        assert held(hub) == 5
        assert await one.take(4) == 0

    play(story)


def test_the_same_job_counts_once_on_an_instance() -> None:
    async def story(hub: MemoryHub) -> None:
        one = Instance(hub, "one", 1)
        assert await one.take(1, 1, 1) == 3
        one.leases.adopt(ACME, JobId("j-1"))
        await settle(one)
        assert held(hub) == 1

    play(story)


def test_a_refused_tenant_of_which_nothing_is_held_is_forgotten() -> None:
    async def story(hub: MemoryHub) -> None:
        one, other = Instance(hub, "one", 1), Instance(hub, "other", 1)
        assert await one.take(1) == 1
        assert await other.take(2) == 0
        one.end(1)
        await settle(one)
        assert await other.take(2) == 1
        assert one.asked == 2

    play(story)


def test_limits_that_cannot_be_asked_for_refuse_only_what_does_not_fit_the_block() -> None:
    async def story(hub: MemoryHub) -> None:
        one = Instance(hub, "one", 4 * BLOCKS_IN_LIMIT)
        assert await one.take(1) == 1
        hub.go_down()
        assert await one.take(2, 3, 4, 5) == 4
        with pytest.raises(DependencyDown):
            await one.take(6)

    play(story)
