"""What goes wrong with instances and with the server they share, one thing after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random

from tests.simulation.cluster_world import ClusterWorld, Instance

from dragoman.testing import SubmittedJob

NAMES = ("a", "b", "c")

Fault = Callable[[], Awaitable[None]]


class Trouble:
    """Breaks what it draws, and mends it; nothing is broken in two ways at once.

    Of the instances at least one is always there.
    """

    def __init__(self, world: ClusterWorld, random: Random, *, loses_data: bool) -> None:
        self._world = world
        self._random = random
        self.seconds = 0.0
        """How long the way to the server takes."""
        self.failures = 0.0
        """Share of what is lost on it."""
        self.held_up: set[SubmittedJob] = set()
        """Those whose asker, or the server, stood still meanwhile: they hear of it later."""
        self._faults: Sequence[Fault] = (
            self._kill,
            self._kill_in_the_act,
            self._pause,
            self._slow_down,
            self._cut_from_server,
            self._cut_from_peers,
            self._roll,
            self._stop_server,
            *((self._restart_server_empty, self._fail_over) if loses_data else ()),
        )

    async def make(self, seconds: float) -> None:
        """Break things for so long; when this returns, all is mended but the ways."""
        clock = self._world.clock
        self.lengthen_ways()
        until = clock.monotonic() + seconds
        while clock.monotonic() < until:
            await asyncio.sleep(self._random.expovariate(0.6))
            await self._random.choice(self._faults)()

    async def end(self) -> None:
        """Nothing is lost any more, and everybody is there."""
        world, faults = self._world, self._world.hub.faults
        faults.lost_notes = faults.lost_changes = faults.lost_answers = 0.0
        self.failures = 0.0
        self.lengthen_ways()
        for name in NAMES:
            if not any(known.startswith(name) for known in world.instances):
                await self._begin(name)

    def lengthen_ways(self) -> None:
        for instance in self._world.instances.values():
            self._lengthen(instance)

    def _lengthen(self, instance: Instance) -> None:
        instance.access.seconds, instance.access.failures = self.seconds, self.failures

    # --- instances -------------------------------------------------------------------------------

    async def _kill(self) -> None:
        name = self._anybody()
        await self._world.kill(name)
        await self._begin_again(name)

    async def _kill_in_the_act(self) -> None:
        name, random, world = self._anybody(), self._random, self._world
        world.die_at(name, random.randint(1, 30), before=random.random() < 0.5)
        await world.until(lambda: name not in world.instances, seconds=60)
        await self._begin_again(name)

    async def _pause(self) -> None:
        name, world = self._anybody(), self._world
        self.held_up.update(world[name].jobs)
        world.pause(name)
        await asyncio.sleep(self._random.random() * 8)
        self.held_up.update(world[name].jobs)
        world.resume(name)
        await asyncio.sleep(0.3)

    async def _slow_down(self) -> None:
        instance = self._world[self._anybody()]
        instance.access.seconds = 0.1
        await asyncio.sleep(self._random.random() * 3)
        self._lengthen(instance)

    async def _cut_from_server(self) -> None:
        name = self._anybody()
        self._world.cut_off(name)
        await asyncio.sleep(self._random.random() * 6)
        self.held_up.update(self._world[name].jobs)
        self._world.join_again(name)

    async def _cut_from_peers(self) -> None:
        name = self._anybody()
        self._world.cut_hub(name)
        await asyncio.sleep(self._random.random() * 6)
        self._world.mend_hub(name)

    async def _roll(self) -> None:
        """A rolling restart: it ends in order, and begins again."""
        name = self._anybody()
        instance = self._world[name]
        instance.connections.refuse_new()
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await instance.plane.drain()
        for errand in instance.jobs:
            errand.asker_is_gone = not errand.over
        await self._world.leave(name)
        await self._begin_again(name)

    def _anybody(self) -> str:
        return self._random.choice(sorted(self._world.instances))

    async def _begin_again(self, name: str) -> None:
        random = self._random
        await asyncio.sleep(random.random() * random.choice((0.1, 3, 8)))
        await self._begin(name if random.random() < 0.5 else f"{name}{random.randrange(1000)}")

    async def _begin(self, name: str) -> None:
        self._lengthen(await self._world.begin(name))

    # --- the server they share -------------------------------------------------------------------

    async def _stop_server(self) -> None:
        self._world.server.stop()
        await asyncio.sleep(self._random.random() * 5)
        self._hold_everybody_up()
        self._world.server.go_on()

    async def _restart_server_empty(self) -> None:
        self._world.server.stop()
        await asyncio.sleep(self._random.random() * 2)
        self._hold_everybody_up()
        self._world.server.restart_empty()

    async def _fail_over(self) -> None:
        """The replica was a little behind, and it takes a moment until it is put in charge."""
        server = self._world.server
        replica = server.memory()
        await asyncio.sleep(self._random.random() * self._random.choice((0.05, 0.5)))
        server.stop()
        await asyncio.sleep(self._random.random() * 2)
        self._hold_everybody_up()
        server.fail_over(replica)

    def _hold_everybody_up(self) -> None:
        for instance in self._world.instances.values():
            self.held_up.update(errand for errand in instance.jobs if not errand.over)
