"""The backends that the contract holds for, each opened the way a test needs it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.contract.shared.bench import KEEP_DELIVERED, SESSION_MS, Bench
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess

from dragoman.clock import ManualClock
from dragoman.ids import new_id
from dragoman.live.shared import MemorySharedLedger, RedisSharedLedger, SharedLedger

BACKENDS = [
    pytest.param("memory"),
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("redis_cluster", marks=pytest.mark.redis),
]

LIVES = {"memory": 30, "redis": 4, "redis_cluster": 2}
"""How many random lives a backend leads in an ordinary run: a few seconds' worth."""


def open_bench(
    request: pytest.FixtureRequest, runner: asyncio.Runner, random: Random, **options: Any
) -> Bench:
    """A bench for the backend that the test is run for; options go to the ledger."""
    options = {"keep_delivered": KEEP_DELIVERED, "session_ms": SESSION_MS} | options
    clock = ManualClock()
    if request.param == "memory":
        memory = MemorySharedLedger(clock, random, **options)
        return Bench(runner, memory, clock.advance, random)
    ledger = runner.run(_open_redis(request, random, clock, options))
    return Bench(runner, ledger, clock.advance, random)


async def _open_redis(
    request: pytest.FixtureRequest, random: Random, clock: ManualClock, options: dict[str, Any]
) -> SharedLedger:
    if request.param == "redis":
        server: RedisProcess | RedisCluster = request.getfixturevalue("redis_server")
    else:
        server = request.getfixturevalue("redis_cluster")
    return RedisSharedLedger(
        server.url,
        random,
        cluster=request.param == "redis_cluster",
        # Keys of this test alone; not from the seeded stream, which is the same in every test.
        key_prefix=new_id(Random(), "test"),
        time_ms=clock.now_ms,
        timeout_ms=PATIENT_MS,
        **options,
    )
