"""A seat that a node's own connection took again is never taken for another node's."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import DependencyDown
from dragoman.live.ledger import CellFull, Placed, Placement, Stale
from dragoman.live.protocol import Outcome
from dragoman.testing import SimulatedNode, seconds

Placing = Placed | CellFull | Stale


def forget_everything(world: ClusterWorld) -> None:
    """The ledger is empty, as after a restart without its data."""
    world.ledger._cells.clear()
    world.ledger._whereabouts.cells.clear()
    world.ledger._directory.entries.clear()


async def check_it_stays(world: ClusterWorld, node: SimulatedNode) -> None:
    """The node keeps its connection, its seat and its use."""
    await asyncio.sleep(5)
    assert node.connected
    assert node.close_code is None
    await world.until(lambda: world.sees("a", "n") and world.sees("b", "n"))
    job = await world.submit("a", "r1")
    assert (await job.end()).outcome is Outcome.SUCCESS
    assert await world.held() == 0


def test_when_the_answer_to_taking_it_again_was_lost() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.1))
        place = world.ledger.seat
        lost: list[Placing] = []

        async def place_and_lose_the_answer(cell: int, placement: Placement) -> Placing:
            answer = await place(cell, placement)
            if not lost:
                lost.append(answer)
                raise DependencyDown("There was no answer.")
            return answer

        world.ledger.seat = place_and_lose_the_answer  # type: ignore[method-assign]
        forget_everything(world)
        await world.until(lambda: bool(lost))
        await check_it_stays(world, node)

    play_together(story, scheduler__node_health__heartbeat_interval_seconds=1)


def test_when_the_cell_is_read_before_the_answer_has_come() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.1))
        place = world.ledger.seat
        slow: list[Placing] = []

        async def place_with_a_slow_answer(cell: int, placement: Placement) -> Placing:
            answer = await place(cell, placement)
            slow.append(answer)
            await asyncio.sleep(3)  # longer than from one look at the cells to the next
            return answer

        world.ledger.seat = place_with_a_slow_answer  # type: ignore[method-assign]
        forget_everything(world)
        await world.until(lambda: bool(slow))
        await check_it_stays(world, node)

    play_together(story, scheduler__node_health__heartbeat_interval_seconds=1)
