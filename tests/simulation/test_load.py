"""A thousand requests at once on twenty nodes with four slots each."""

from __future__ import annotations

import asyncio

from tests.simulation.world import World, play

from dragoman.live.protocol import Outcome
from dragoman.testing import SubmittedJob, exponential

NODES, SLOTS = 20, 4


async def fleet(world: World) -> None:
    for number in range(NODES):
        await world.node(f"n{number}", slots=SLOTS, service=exponential(0.5))


def check(world: World, errands: list[SubmittedJob]) -> None:
    """No node over its limit by its own count, and every job ended once."""
    for node in world.nodes.values():
        assert node.over_limit == 0
        assert node.high_water <= SLOTS
    for errand in errands:
        assert len(errand.ends) == (errand.refusal is None)
    assert set(world.plane.dispatcher.counts().values()) == {0}


def test_bursts_fill_every_slot_before_anyone_is_refused() -> None:
    async def story(world: World) -> None:
        await fleet(world)
        for burst in range(10):
            held = await world.held()
            errands = await asyncio.gather(
                *(world.submit(f"r{burst}-{number}") for number in range(100))
            )
            refused = [errand for errand in errands if errand.refusal is not None]
            assert len(refused) == 100 - (NODES * SLOTS - held), "refused only what has no slot"
            await world.pass_time(0.3)
        await world.until(lambda: all(errand.over for errand in world.jobs))
        check(world, world.jobs)

    play(story)


def test_a_thousand_who_wait_are_all_served() -> None:
    async def story(world: World) -> None:
        await fleet(world)
        errands = await asyncio.gather(
            *(world.submit(f"r{number}", may_wait=True) for number in range(1_000))
        )
        for errand in errands:
            await errand.end()
            assert errand.outcome is Outcome.SUCCESS
        assert sum(node.high_water for node in world.nodes.values()) == NODES * SLOTS
        check(world, errands)

    play(story)


def test_at_95_percent_occupancy_no_job_waits_while_a_slot_is_free() -> None:
    async def story(world: World) -> None:
        await fleet(world)
        for number in range(1_000):
            held = await world.held()
            waiting = world.plane.dispatcher.counts()["waiting"]
            assert held == NODES * SLOTS or waiting == 0
            await world.submit(f"r{number}", may_wait=True)
            await asyncio.sleep(world.random.expovariate(0.95 * NODES * SLOTS / 0.5))
        for errand in world.jobs:
            await errand.end()
            assert errand.outcome is Outcome.SUCCESS
        check(world, world.jobs)

    play(story)
