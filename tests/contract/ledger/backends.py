"""The backends that the contract holds for, each opened the way a test needs it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.contract.ledger.bench import Bench
from tests.servers import PATIENT_MS, RedisCluster, RedisProcess

from dragoman.clock import ManualClock
from dragoman.ids import new_id
from dragoman.live.ledger import Ledger, MemoryLedger, RedisLedger

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


def open_bench(
    request: pytest.FixtureRequest, runner: asyncio.Runner, random: Random, **options: Any
) -> Bench:
    """A bench for the backend that the test is run for; options go to the ledger."""
    if request.param == "memory":
        clock = ManualClock()
        return Bench(runner, MemoryLedger(clock, random, **options), clock.advance, random)
    shifted = ShiftedTime()
    ledger = runner.run(_open_redis(request, random, shifted, options))
    return Bench(runner, ledger, shifted.advance, random)


async def _open_redis(
    request: pytest.FixtureRequest, random: Random, shifted: ShiftedTime, options: dict[str, Any]
) -> Ledger:
    if request.param == "redis":
        server: RedisProcess | RedisCluster = request.getfixturevalue("redis_server")
    else:
        server = request.getfixturevalue("redis_cluster")
    return RedisLedger(
        server.url,
        random,
        cluster=request.param == "redis_cluster",
        # Keys of this test alone; not from the seeded stream, which is the same in every test.
        key_prefix=new_id(Random(), "test"),
        time_shift_ms=shifted,
        timeout_ms=PATIENT_MS,
        **options,
    )
