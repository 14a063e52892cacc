"""Work on very many things at once lets others have their turn, and keeps nothing of them.

The clock of these stories moves on with each reading, as if everything took its time.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.simulation.speakers import Speaker
from tests.simulation.world import World, settings_with

from dragoman.ids import AttemptId, JobId
from dragoman.live.dispatch.node_messages import UNKNOWN_AT_A_TIME
from dragoman.live.protocol import ExclusionReason, JobCancel, NodeHealth, NodeHeartbeat, RunningJob
from dragoman.live.snapshot import RuntimeSnapshot
from dragoman.testing import CALM, VirtualClock, run_virtual, seconds

MANY = 300


class SlowClock(VirtualClock):
    """A clock that is a tenth of a millisecond later each time it is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._loop_time = loop.time
        self._readings = 0

    def monotonic(self) -> float:
        self._readings += 1
        return self._loop_time() + self._readings * 0.0001


def play_slowly(story: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        clock = SlowClock(asyncio.get_running_loop())
        async with World(seed=1, clock=clock, settings=settings_with(**settings)) as world:
            await story(world)

    run_virtual(main, seed=1)


@asynccontextmanager
async def watched(count: Callable[[], int]) -> AsyncIterator[set[int]]:
    """What another task sees of a number meanwhile, when it gets its turn."""
    seen: set[int] = set()

    async def watch() -> None:
        while True:
            seen.add(count())
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def turns(number: int) -> None:
    """Let everything that is ready run so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


def snapshots_alive() -> int:
    """How many snapshots anything in this process still holds."""
    gc.collect()
    return sum(isinstance(thing, RuntimeSnapshot) for thing in gc.get_objects())


def test_ending_many_sessions_lets_others_have_their_turn() -> None:
    async def story(world: World) -> None:
        sessions: Any = world.plane.sessions
        speakers = [Speaker(world) for _ in range(MANY)]
        for speaker in speakers:
            await speaker.connect()
        for speaker in speakers:
            speaker.cut()
        await world.until(lambda: len(sessions._gone) == MANY)
        for session_id in sessions._gone:
            sessions._gone[session_id] -= world.settings.scheduler.delivery.resume_grace_seconds
        async with watched(lambda: len(sessions)) as seen:
            await sessions._end_gone(world.clock.monotonic())
        assert len(sessions) == 0
        assert len(seen) > MANY / 30

    play_slowly(story)


def test_a_heartbeat_with_very_many_unknown_attempts_lets_others_have_their_turn() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", slots=4, service=seconds(0.1))
        unknown = [
            RunningJob(JobId(f"j-00{number:024x}"), AttemptId(f"a-{number:024x}"))
            for number in range(20_000)
        ]
        async with watched(lambda: world.ledger._cells.held) as seen:
            await node.say(NodeHeartbeat(CALM, tuple(unknown)))
            await turns(2 * UNKNOWN_AT_A_TIME)
        assert len(seen) > UNKNOWN_AT_A_TIME / 50
        assert max(seen) <= UNKNOWN_AT_A_TIME
        await turns(1_000)
        assert node.connected
        told = [message for message in node.heard if isinstance(message, JobCancel)]
        assert 0 < len(told) <= UNKNOWN_AT_A_TIME

    play_slowly(story)


def test_an_explanation_keeps_what_it_tells_and_no_snapshot() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=4, service=seconds(0.01))
        flapping = await world.node("flapping", slots=4, service=seconds(0.01))
        version = world.plane.snapshots.current.version
        alive_before = snapshots_alive()
        jobs = []
        for number in range(30):
            # A change of the fleet makes a new snapshot each time.
            flapping.cut()
            await world.until(lambda: world.health("flapping") is NodeHealth.OFFLINE)
            jobs.append(await world.submit(f"r{number}"))
            await jobs[-1].end()
            await flapping.connect()
            await world.until(lambda: world.health("flapping") is NodeHealth.READY)
        assert world.plane.snapshots.current.version > version + 30
        assert snapshots_alive() - alive_before < 10
        for job in jobs:
            explained = world.plane.dispatcher.explain(job.job_id)
            assert explained is not None
            [attempt] = explained.attempts
            assert attempt.chosen == "n"
            left_out = attempt.reasons[ExclusionReason.NOT_READY]
            assert (left_out.count, left_out.nodes) == (1, ("flapping",))

    play_slowly(story)
