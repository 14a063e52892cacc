"""The backends that the contract holds for, each opened the way a test needs it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.contract.cluster.bench import TERMS, Bench
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess

from dragoman.clock import ManualClock
from dragoman.ids import InstanceId, new_id
from dragoman.live.cluster import Cluster, MemoryHub, MemoryPeers, RedisPeers
from dragoman.redis_servers import Plain

BACKENDS = [
    pytest.param("memory"),
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("redis_cluster", marks=pytest.mark.redis),
]


class ShiftedTime:
    """Time that runs as the server's does, and can be moved ahead of it."""

    def __init__(self) -> None:
        self._shift_ms = 0

    def __call__(self) -> int:
        return self._shift_ms

    def advance(self, seconds: float) -> None:
        self._shift_ms += int(seconds * 1000)


class _TurnableClock(ManualClock):
    def turn_back(self, seconds: float) -> None:
        self._elapsed -= seconds


def open_bench(request: pytest.FixtureRequest, runner: asyncio.Runner, random: Random) -> Bench:
    """A bench for the backend that the test is run for."""
    if request.param == "memory":
        clock = _TurnableClock()
        hub = MemoryHub(clock, random, TERMS)

        async def age_notes(peers: MemoryPeers) -> None:
            for entry in hub.instances[peers.instance_id].inbox:
                entry.handed_at_ms -= TERMS.reclaim_idle_ms

        return Bench(runner, hub.peers, clock.advance, age_notes, clock.turn_back)
    if request.param == "redis":
        server: RedisProcess | RedisCluster = request.getfixturevalue("redis_server")
    else:
        server = request.getfixturevalue("redis_cluster")
    shifted = ShiftedTime()
    # Keys of this test alone; not from the seeded stream, which is the same in every test.
    key_prefix = new_id(Random(), "test")

    def open_peers(instance_id: InstanceId) -> Cluster:
        return RedisPeers(
            server.url,
            instance_id,
            random,
            TERMS,
            cluster=request.param == "redis_cluster",
            key_prefix=key_prefix,
            time_shift_ms=shifted,
            timeout_ms=PATIENT_MS,
        )

    return Bench(
        runner, open_peers, shifted.advance, _age_notes, lambda seconds: shifted.advance(-seconds)
    )


async def _age_notes(peers: RedisPeers) -> None:
    """Make notes in work older: the server measures that itself, by a time that is not shifted."""
    tag = peers._tags.instance(peers.instance_id).name
    key = peers._tags.inbox_key(peers.instance_id)

    async def ask(*words: bytes | str | int) -> Any:
        return await peers._caller.ask(tag, "age", Plain(words))

    for entry_id, consumer, _, _ in await ask("XPENDING", key, "instance", "-", "+", 100):
        idle = ("IDLE", TERMS.reclaim_idle_ms, "JUSTID")
        await ask("XCLAIM", key, "instance", consumer, 0, entry_id, *idle)
