"""Mistakes that schedulers of this kind have made, each shown not to be made here."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.chaos import SETTINGS
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import open_roamer

from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import NodeRegisterAck, Outcome
from dragoman.testing import seconds


def test_nodes_behind_a_cell_that_emptied_are_found_from_every_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        first = await world.node("first", at="a", service=seconds(0.1))
        behind = await world.node("behind", at="b", service=seconds(0.1))
        await first.stop()
        await world.until(lambda: set(world["a"].plane.snapshots.current.cells) == {1})
        for number, at in enumerate("ab" * 3):
            job = await world.submit(at, f"r{number}", may_wait=True)
            assert (await job.end()).outcome is Outcome.SUCCESS
        assert len(behind.assigned) == 6

    play_together(
        story,
        scheduler__pools__cell_size=1,
        scheduler__node_health__forget_offline_seconds=5,
    )


def test_a_pair_that_no_node_speaks_costs_the_same_however_many_cells_there_are() -> None:
    costs = [_calls_for_an_unknown_pair(nodes) for nodes in (1, 12)]
    assert costs[0] == costs[1]


def _calls_for_an_unknown_pair(nodes: int) -> int:
    """What a refusal costs in calls to the ledger, with each node in a cell of its own."""
    calls: list[int] = []

    async def story(world: ClusterWorld) -> None:
        for number in range(nodes):
            await world.node(f"n{number}", at="b")
        door = world["a"].access
        before = door.operations
        job = await world.submit("a", "r1", src_lang="xx", tgt_lang="yy")
        calls.append(door.operations - before)
        assert job.refusal is not None
        assert job.refusal.code == "PAIR_UNSUPPORTED"

    play_together(story, scheduler__pools__cell_size=1)
    return calls[0]


def test_a_node_is_known_by_its_connection_before_it_hears_that_it_is_registered() -> None:
    async def story(world: ClusterWorld) -> None:
        node = world.new_node("n", at="b", service=seconds(0.1))
        await node.connect()
        await world.until(
            lambda: any(isinstance(message, NodeRegisterAck) for message in node.heard)
        )
        cell = await world.ledger.read_cell(0)
        assert cell is not None
        (seat,) = cell.seats
        assert seat.owner.instance_id == "b"
        assert seat.online
        # So the first job finds its way, also from an instance that has only just heard of it.
        await world.until(lambda: world.sees("a", "n"))
        job = await world.submit("a", "r1")
        assert (await job.end(seconds=1)).outcome is Outcome.SUCCESS

    play_together(story)


def test_jobs_that_look_for_a_slot_at_the_same_time_do_not_wake_each_other_for_ever() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=1, service=seconds(30))
        speaker = await open_roamer(world, "a")
        for _ in range(5):
            await speaker.say()
        door = world["a"].access
        await asyncio.sleep(1)
        pending = world["a"].plane.dispatcher._driver.pending
        assert pending.count == 4
        door.seconds = 0.01
        before = door.operations
        for _ in range(3):
            pending.wake()
            await asyncio.sleep(0.005)
        await asyncio.sleep(3)
        # Each of the four looks a few times, and then waits.
        assert door.operations - before < 400

    play_together(story)


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("still_seconds", [2.6, 2.8, 3.0])
def test_a_node_whose_instance_stood_still_gets_no_more_than_its_slots(
    still_seconds: float, seed: int
) -> None:
    """What it said before it heard of an attempt is no answer to a question about it."""

    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a", slots=1, service=seconds(0.5))
        await asyncio.sleep(0.3)
        for link in world["a"].network.links:
            link.to_client.pause()
            link.to_server.pause()
        await world.submit("b", "r1", may_wait=True)
        await asyncio.sleep(0.05)
        world.pause("a")
        await world.submit("b", "r2", may_wait=True)
        await asyncio.sleep(still_seconds)
        world.resume("a")
        await asyncio.sleep(5)
        assert node.over_limit == 0

    delay = uniform(0.0, 0.05)
    play_together(story, names=("a", "b", "c"), seed=seed, delay=delay, **SETTINGS)
