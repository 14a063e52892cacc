"""What instances keep of sessions and jobs that are over: nothing."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import Roamer, open_roamer

from dragoman.live.dispatch.job import Job
from dragoman.testing import JobEnding, seconds

ROUNDS = 3
SESSIONS = 12
"""Of a round: enough of each way to end one."""
UTTERANCES = 4
FORGOTTEN_SECONDS = 200
"""After so long nothing is kept of what is over."""
ROOMS = tuple(f"dragoman.live.{room}" for room in ("core", "sessions", "shared", "gateway"))
SETTINGS: dict[str, Any] = {
    "scheduler__job_retention_seconds": 20,
    "scheduler__task_binding__lease_seconds": 20,
    "scheduler__delivery__resume_grace_seconds": 20,
    "scheduler__explain_max": 5,
}


def alive() -> Counter[str]:
    """The objects of the live plane that the collector cannot free, by their kinds."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith(ROOMS))


async def converse(world: ClusterWorld, number: int) -> None:
    """Say something, and leave in one way or another, with or without what was heard."""
    at, other = "ab"[number % 2], "ba"[number % 2]
    roamer = await open_roamer(world, at, acknowledges=number % 3 == 0)
    for _ in range(UTTERANCES):
        await roamer.say()
    if number % 4 != 3:
        await roamer.until_ended(UTTERANCES)
    if number % 4 == 0:
        await roamer.close()
    elif number % 4 == 1:
        roamer.cut()
    else:
        await roamer.go_on_at(other)
        await roamer.until_ended(UTTERANCES)
        roamer.cut()
    forget(world, roamer)


def forget(world: ClusterWorld, roamer: Roamer) -> None:
    """The test itself is to keep nothing, either."""
    world.clients.remove(roamer)


def test_sessions_that_are_over_leave_nothing_behind() -> None:
    async def story(world: ClusterWorld) -> None:
        for name in "ab":
            await world.node(f"n-{name}", at=name, slots=20, service=seconds(0.2))
        await world.node("bad", at="a", slots=5, answer=JobEnding.RETRYABLE, service=seconds(0.1))
        left = []
        for _ in range(ROUNDS):
            await asyncio.gather(*(converse(world, number) for number in range(SESSIONS)))
            await world.pass_time(FORGOTTEN_SECONDS)
            left.append(alive())
        grown = {kind: [each[kind] for each in left] for kind in left[-1] - left[0]}
        assert not grown, f"after each round: {grown}"

    play_together(story, **SETTINGS)


def test_a_job_that_is_over_needs_no_collector() -> None:
    """At thousands of jobs a second, what waits for the collector is many times what is in use."""

    async def story(world: ClusterWorld) -> None:
        for name in "ab":
            await world.node(f"n-{name}", at=name, slots=20, service=seconds(0.2))
        await world.pass_time(1)
        gc.collect()
        before = {id(thing) for thing in gc.get_objects() if isinstance(thing, Job)}
        gc.disable()
        try:
            for number in range(20):
                job = await world.submit("ab"[number % 2], f"r{number}")
                await job.end()
            del job
            world.jobs.clear()
            await world.pass_time(FORGOTTEN_SECONDS)
            jobs = [thing for thing in gc.get_objects() if isinstance(thing, Job)]
            assert not [job for job in jobs if id(job) not in before]
        finally:
            gc.enable()

    play_together(story, **SETTINGS)
