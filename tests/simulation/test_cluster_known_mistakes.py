"""Mistakes that schedulers of this kind have made, each shown not to be made here."""

from __future__ import annotations

from tests.simulation.cluster_world import ClusterWorld, play_together

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
