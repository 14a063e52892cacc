"""A whole fleet that falls silent at once is removed without holding up other tasks."""

from __future__ import annotations

import asyncio

from tests.simulation.world import World, settings_with

from dragoman.ids import ConnectionId, NodeId, TenantId
from dragoman.live.fleet import Applicant
from dragoman.live.protocol import (
    Hardware,
    Languages,
    NodeHealth,
    NodeRegister,
    SchedulerToNode,
)
from dragoman.testing import SERVICES, VirtualClock, run_virtual

NODES = 200


class TiringClock(VirtualClock):
    """A clock that, once the work is hard, goes on by 0.2 ms from one look to the next."""

    hard = False
    looks = 0

    def monotonic(self) -> float:
        self.looks += self.hard
        return super().monotonic() + self.looks * 0.0002


class SilentLink:
    """A node's connection; counts, over all of them, how many are closed within one turn."""

    in_this_turn = 0
    most_in_a_turn = 0

    def __init__(self, number: int) -> None:
        self.id = ConnectionId(f"c{number}")

    def send(self, message: SchedulerToNode) -> bool:
        return True

    def superseded(self) -> None:
        """No node comes back here."""

    def timed_out(self) -> None:
        if not SilentLink.in_this_turn:
            asyncio.get_running_loop().call_soon(self._next_turn)
        SilentLink.in_this_turn += 1
        SilentLink.most_in_a_turn = max(SilentLink.most_in_a_turn, SilentLink.in_this_turn)

    @staticmethod
    def _next_turn() -> None:
        SilentLink.in_this_turn = 0


def registration(number: int) -> NodeRegister:
    return NodeRegister(
        version="1",
        schema_version="2.0",
        platform="test",
        hardware=Hardware(1, 1.0),
        services=SERVICES,
        languages=Languages(("en",), (), ("en",), ("en",)),
        node_id=NodeId(f"n{number}"),
    )


def test_a_fleet_that_falls_silent_at_once_is_let_go_of_in_slices() -> None:
    async def main() -> None:
        clock = TiringClock(asyncio.get_running_loop())
        async with World(seed=1, clock=clock, settings=settings_with()) as world:
            registry = world.plane.registry
            for number in range(NODES):
                applicant = Applicant(TenantId("t"), None)
                await registry.register(registration(number), applicant, SilentLink(number))
            clock.hard = True
            await asyncio.sleep(50)
            assert registry.by_status[NodeHealth.OFFLINE] == NODES
            assert 0 < SilentLink.most_in_a_turn <= 10, "two milliseconds of work"

    run_virtual(main, seed=1)
