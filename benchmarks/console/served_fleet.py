"""A real server with a fleet that lives in its process.

Its nodes are in the registry as any others; only their sockets are missing, so that ten thousand
need no machine of their own. They beat once an interval, and so many a second begin or cease to
run a service, which every console is told of.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

from benchmarks.fleet import HEARTBEAT, HEARTBEAT_SECONDS, SERVICES, CountingLink, registration
from dragoman.api import Parts, Server, Services, all_parts
from dragoman.cli.serve import run_until_stopped
from dragoman.ids import TenantId
from dragoman.live.fleet import Applicant, RegisteredNode
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import NodeHeartbeat, ResourceUsage
from dragoman.settings import load_settings

TURN_SECONDS = 0.05
USAGE = ResourceUsage(20.0, 30.0)
FEWER, ALL = (NodeHeartbeat(USAGE, (), services=kinds) for kinds in (SERVICES[:2], SERVICES))


class LocalFleet:
    """Nodes that register, beat and change in the process of their server."""

    def __init__(self, nodes: int, changes_per_second: int) -> None:
        self._count = nodes
        self._changes_per_second = changes_per_second
        self._planes: list[LivePlane] = []

    def assemble(self, services: Services) -> Parts:
        """A server with everything; the fleet takes note of its live plane."""
        parts = all_parts(services)
        self._planes += [plane for plane in parts.planes if isinstance(plane, LivePlane)]
        return parts

    @asynccontextmanager
    async def beside(self, server: Server) -> AsyncIterator[None]:
        """Every node is registered before the server is announced."""
        (plane,) = self._planes
        applicant = Applicant(TenantId("default"), None)
        nodes = []
        for number in range(self._count):
            link = CountingLink(number)
            node, _ = await plane.registry.register(registration(number), applicant, link)
            nodes.append(node)
        tasks = [
            asyncio.create_task(self._beat(plane, cycle(nodes))),
            asyncio.create_task(self._change(plane, nodes)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self, plane: LivePlane, nodes: Iterator[RegisteredNode]) -> None:
        per_turn = 1 + int(self._count / HEARTBEAT_SECONDS * TURN_SECONDS)
        while True:
            for _ in range(per_turn):
                await plane.registry.beat(next(nodes), HEARTBEAT)
            await asyncio.sleep(TURN_SECONDS)

    async def _change(self, plane: LivePlane, nodes: list[RegisteredNode]) -> None:
        """Go round the fleet: in one round a node has a service fewer, in the next all of them."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        # Far from each other, as changes of a real fleet are: no cell changes as a whole.
        order = cycle(nodes[start::97] for start in range(97))
        rounds = ((node, number // 97) for number, part in enumerate(order) for node in part)
        for done, (node, number) in enumerate(rounds, start=1):
            await plane.registry.beat(node, ALL if number % 2 else FEWER)
            ahead = done / self._changes_per_second - (loop.time() - began)
            if ahead > TURN_SECONDS:
                await asyncio.sleep(ahead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--changes", type=int, required=True, help="a second")
    chosen = parser.parse_args()
    flags = {"server": {"port": 0, "data_dir": chosen.data_dir}, "lab": {"enabled": False}}
    fleet = LocalFleet(chosen.nodes, chosen.changes)
    run_until_stopped(
        load_settings(None, flags).settings, assemble=fleet.assemble, company=fleet.beside
    )


if __name__ == "__main__":
    main()
