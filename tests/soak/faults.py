"""What breaks in the soak of a cluster, one thing after the other; all is mended before a rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from tests.servers.programs import wait_until
from tests.soak.laws import Laws
from tests.soak.nodes import HonestNode
from tests.soak.server import KILLED, Backend

_BETWEEN_SECONDS = 3.0
_GONE_SECONDS = (0.0, 2.0)
_PAUSED_SECONDS = (0.5, 3.0)


class Trouble:
    """Breaks one thing after the other, in the same order again and again."""

    def __init__(
        self, backend: Backend, fleet: Sequence[HonestNode], random: Random, laws: Laws
    ) -> None:
        self._backend = backend
        self._fleet = fleet
        self._random = random
        self._laws = laws
        self._faults = (
            self._kill_an_instance,
            self._cut_the_nodes,
            self._pause_redis,
            self._restart_redis,
        )
        self._next = 0

    async def make(self, stop: asyncio.Event) -> None:
        """Break one thing after the other until told to stop; then all is mended."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BETWEEN_SECONDS):
                    await stop.wait()
                    return
            fault = self._faults[self._next % len(self._faults)]
            self._next += 1
            self._laws.count(f"fault: {fault.__name__.strip('_')}")
            await fault()

    async def _kill_an_instance(self) -> None:
        await asyncio.to_thread(self._backend.kill, KILLED)
        await asyncio.sleep(self._random.uniform(*_GONE_SECONDS))
        await asyncio.to_thread(self._backend.start, KILLED)
        await asyncio.to_thread(
            wait_until, self._backend.takes_callers, "the proxy to see the instance again"
        )

    async def _cut_the_nodes(self) -> None:
        for node in self._random.sample(self._fleet, len(self._fleet) // 2):
            node.cut()

    async def _pause_redis(self) -> None:
        redis = self._backend.redis
        assert redis is not None
        redis.pause()
        try:
            await asyncio.sleep(self._random.uniform(*_PAUSED_SECONDS))
        finally:
            redis.resume()

    async def _restart_redis(self) -> None:
        redis = self._backend.redis
        assert redis is not None
        await asyncio.to_thread(redis.restart)
