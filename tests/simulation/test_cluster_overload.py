"""A shared server that is slow or away is not asked for more than it can do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import DependencyDown
from dragoman.testing import seconds

EACH_SECONDS = 0.004
PATIENCE_SECONDS = 1.0
ARRIVALS_A_SECOND = 150
JOBS = 600
PENDING_SECONDS = 10.0
OUTAGE_SECONDS = 10.0


class SlowServer:
    """Makes operations take their turn; also those that no caller waits for any more."""

    def __init__(self, world: ClusterWorld) -> None:
        self._clock = world.clock
        self._free_at = 0.0
        self.asked = 0
        for instance in world.instances.values():
            slowly = self._slowly(instance.access.go_through)
            instance.access.go_through = slowly  # type: ignore[method-assign, assignment]

    def _slowly(self, go_through: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wait_and_go(room: object, operation: Callable[[], Awaitable[Any]]) -> Any:
            self.asked += 1
            now = self._clock.monotonic()
            self._free_at = max(now, self._free_at) + EACH_SECONDS
            takes = self._free_at - now
            await asyncio.sleep(min(PATIENCE_SECONDS, takes))
            if takes > PATIENCE_SECONDS:
                raise DependencyDown("The server has too much to do.")
            return await go_through(room, operation)

        return wait_and_go


def driven(world: ClusterWorld) -> int:
    return sum(one.plane.dispatcher.counts()["jobs"] for one in world.instances.values())


def test_jobs_that_overwhelm_the_server_end_and_then_it_rests() -> None:
    async def story(world: ClusterWorld) -> None:
        for number in range(4):
            await world.node(f"n{number}", at="ab"[number % 2], slots=4, service=seconds(0.2))
        server = SlowServer(world)

        async def ask(number: int) -> None:
            await asyncio.sleep(number / ARRIVALS_A_SECOND)
            await world.submit("ab"[number % 2], f"r{number}", may_wait=True)

        await asyncio.gather(*map(ask, range(JOBS)))
        await world.until(lambda: driven(world) == 0, 3 * PENDING_SECONDS, every=0.1)
        assert all(errand.over for errand in world.jobs)
        before = server.asked
        await world.pass_time(2.0)
        assert server.asked - before < 2.0 / EACH_SECONDS / 4, "somebody still asks"

    play_together(story, seed=3, scheduler__job_timeout__pending_seconds=PENDING_SECONDS)


def test_while_the_server_is_away_jobs_take_turns_at_asking_for_it() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(100))
        jobs = [await world.submit("a", f"r{number}", may_wait=True) for number in range(JOBS)]
        await asyncio.sleep(PENDING_SECONDS - 0.5)
        door = world["a"].access
        world.server.stop()
        before = door.operations
        await asyncio.sleep(OUTAGE_SECONDS)
        assert door.operations - before < 100 * OUTAGE_SECONDS / PATIENCE_SECONDS
        world.server.go_on()
        await world.until(lambda: sum(job.over for job in jobs) >= JOBS - 1, 2.0)

    play_together(story, scheduler__job_timeout__pending_seconds=PENDING_SECONDS)
