"""Breaking things as planned, and mending them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from tests.integration.cluster_chaos.faults import (
    AT_AN_INSTANCE,
    AT_NODES,
    EVERYBODY,
    REDIS,
    Kind,
    PlannedFault,
)
from tests.integration.cluster_chaos.instances import Instance, Servers
from tests.integration.cluster_chaos.people import NodeGroup
from tests.integration.cluster_chaos.records import Diary, Fault

_SLOW_SECONDS = 0.08
"""How much later each piece comes over a slow cable."""


class Trouble:
    """Carries out a plan. Faults may overlap, but nothing is broken in two ways at once."""

    def __init__(self, servers: Servers, groups: Mapping[str, NodeGroup], diary: Diary) -> None:
        self._servers = servers
        self._groups = groups
        self._diary = diary
        names = (*servers.instances, *groups, REDIS)
        self._busy = {name: asyncio.Lock() for name in names}

    async def make(self, planned: Sequence[PlannedFault]) -> None:
        """Begin one fault after another; returns when all is mended."""
        async with asyncio.TaskGroup() as group:
            for fault in planned:
                await asyncio.sleep(fault.wait_seconds)
                group.create_task(self._one(fault))

    async def _one(self, fault: PlannedFault) -> None:
        if fault.kind is Kind.ROLLING_RESTART:
            for name in self._servers.instances:
                await self._break(Kind.ROLLING_RESTART, name, 0.0)
        else:
            assert fault.whom != EVERYBODY
            await self._break(fault.kind, fault.whom, fault.lasts_seconds)

    async def _break(self, kind: Kind, whom: str, seconds: float) -> None:
        async with self._busy[whom]:
            began = time.monotonic()
            try:
                if kind in AT_AN_INSTANCE or kind is Kind.ROLLING_RESTART:
                    await self._at_instance(kind, self._servers.instances[whom], seconds)
                elif kind in AT_NODES:
                    await self._at_nodes(kind, self._groups[whom], seconds)
                else:
                    await self._at_redis(kind, seconds)
            finally:
                ended = time.monotonic()
                self._diary.write(Fault(at=began, kind=kind, whom=whom, until=ended))

    async def _at_instance(self, kind: Kind, instance: Instance, seconds: float) -> None:
        match kind:
            case Kind.KILL_INSTANCE:
                await instance.kill()
                await asyncio.sleep(seconds)
                await instance.start()
            case Kind.DRAIN_INSTANCE | Kind.ROLLING_RESTART:
                await instance.drain()
                await instance.start()
            case Kind.PAUSE_INSTANCE:
                instance.pause()
                await asyncio.sleep(seconds)
                instance.resume()
            case Kind.CUT_FROM_REDIS:
                await instance.to_redis.cut()
                await asyncio.sleep(seconds)
                await instance.to_redis.mend()
            case Kind.CUT_DOOR:
                await instance.door.cut()
                await asyncio.sleep(seconds)
                await instance.door.mend()
            case Kind.SLOW_TO_REDIS | Kind.SLOW_DOOR:
                cable = instance.door if kind is Kind.SLOW_DOOR else instance.to_redis
                cable.delay_seconds = _SLOW_SECONDS
                await asyncio.sleep(seconds)
                cable.delay_seconds = 0.0

    async def _at_nodes(self, kind: Kind, group: NodeGroup, seconds: float) -> None:
        if kind is Kind.KILL_NODES:
            await group.kill()
            await asyncio.sleep(seconds)
            group.start()
        else:
            group.pause()
            await asyncio.sleep(seconds)
            group.resume()

    async def _at_redis(self, kind: Kind, seconds: float) -> None:
        redis = self._servers.redis
        match kind:
            case Kind.PAUSE_REDIS:
                victim = redis.victim()
                victim.pause()
                await asyncio.sleep(seconds)
                victim.resume()
            case Kind.EMPTY_REDIS:
                await asyncio.to_thread(redis.restart_empty)
            case Kind.AGE_REDIS:
                await redis.restart_from_dump(age_seconds=seconds)
            case Kind.FAIL_OVER_REDIS:
                await redis.fail_over(unseen_seconds=seconds)
