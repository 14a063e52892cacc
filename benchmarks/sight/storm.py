"""Nodes that report, over real connections, that they lack a model."""

from __future__ import annotations

import asyncio
from random import Random
from time import process_time

import msgspec

from benchmarks.fleet import SEED, registration
from benchmarks.sight.cpu_time import until
from dragoman.ids import NodeId
from dragoman.live.gateway import LivePlane, MemoryNetwork
from dragoman.live.protocol import ModelNotAvailable
from dragoman.sdk import NodeLink
from dragoman.testing import MemoryConnect

NODES = 50
_TURN_SECONDS = 0.002


class Storm:
    """Fifty nodes on a network in memory: decoded, limited and handled as any other."""

    def __init__(self, plane: LivePlane) -> None:
        self._plane = plane
        self._network = MemoryNetwork(Random(SEED))
        self._links: list[NodeLink] = []

    async def gather(self) -> None:
        connect = MemoryConnect(self._network, self._plane.node_endpoint)
        for number in range(NODES):
            link = await connect()
            register = msgspec.structs.replace(
                registration(number), node_id=NodeId(f"without-{number}")
            )
            await link.send(register)
            await link.receive()  # it has its place
            self._links.append(link)

    async def blow(self, reports: int, seconds: float) -> None:
        """Send so many reports, evenly over the time; 0: as fast as they are taken."""
        turns = max(1, int(seconds / _TURN_SECONDS))
        began, sent = process_time(), 0
        for turn in range(1, turns + 1):
            while sent < reports * turn // turns:
                await self._links[sent % NODES].send(
                    ModelNotAvailable("nmt", "not loaded", version=str(sent % 3))
                )
                sent += 1
                if sent % NODES == 0:
                    await asyncio.sleep(0)  # their sending is work of their own processes
            if seconds:
                await until(began + turn * _TURN_SECONDS)

    async def end(self) -> None:
        await self._network.close()
