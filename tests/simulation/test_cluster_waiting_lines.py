"""A line of waiting jobs moves as fast as slots come free, however far away the ledger is."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.live.protocol import Outcome
from dragoman.testing import seconds

SLOTS = 50
WAY_SECONDS = 0.2
"""A question to the ledger and its answer take about as long as this together."""


def test_a_line_that_formed_once_melts_away_while_slots_are_free() -> None:
    """Each job takes two questions to the ledger: asked one job after another, only two or three
    a second would leave the line, ten would come, and in the end all would wait in vain."""

    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=SLOTS, service=seconds(1))
        world["a"].access.seconds = WAY_SECONDS
        jobs = list(
            await asyncio.gather(
                *(world.submit("a", f"first{n}", may_wait=True) for n in range(SLOTS + 10))
            )
        )
        for number in range(100):
            jobs.append(await world.submit("a", f"later{number}", may_wait=True))
            await asyncio.sleep(0.1)
        for job in jobs:
            assert (await job.end()).outcome is Outcome.SUCCESS
        waited = [(job.ended_at or 0) - job.asked_at for job in jobs[-50:]]
        assert max(waited) < 4, "they stood behind each other beside free slots"

    play_together(story)
