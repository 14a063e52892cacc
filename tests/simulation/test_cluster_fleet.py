"""A fleet that is connected to several instances and known to all of them."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import NoAvailableNode, PairUnsupported
from dragoman.ids import NodeId
from dragoman.live.dispatch import ClusterLedger, Share
from dragoman.live.gateway import CloseCode
from dragoman.live.ledger import CellRecord
from dragoman.live.protocol import (
    Command,
    ModelNotAvailable,
    NodeControl,
    NodeHealth,
    Outcome,
    ResourceUsage,
)
from dragoman.live.shared.records import CellChanges
from dragoman.testing import SimulatedNode, seconds

BUSY = ResourceUsage(cpu_percent=99.0, mem_percent=1.0)
THREE = ("a", "b", "c")


def controls(node: SimulatedNode) -> list[Command]:
    return [message.command for message in node.heard if isinstance(message, NodeControl)]


def test_a_change_of_a_node_is_known_everywhere_at_once() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b")
        for _ in range(3):
            await node.beat(BUSY)
        await asyncio.sleep(0.1)
        refused = await world.submit("a", "r1")
        assert isinstance(refused.refusal, NoAvailableNode)
        assert refused.refusal.details["reasons"] == {"resource_threshold": 1}
        await node.beat()
        await asyncio.sleep(0.1)
        assert (await world.submit("a", "r2")).refusal is None

    play_together(story)


def test_of_a_cell_that_was_seen_before_only_what_changed_is_read() -> None:
    async def story(world: ClusterWorld) -> None:
        nodes = [await world.node(name, at="b") for name in ("n1", "n2", "n3")]
        read: list[str] = []
        ledger = world["a"].plane.ledger
        assert isinstance(ledger, ClusterLedger)
        read_cell, read_changes = ledger.read_cell, ledger.read_changes

        async def whole(cell: int) -> CellRecord | None:
            read.append("whole")
            return await read_cell(cell)

        async def changes(cell: int, since: int) -> CellChanges | None:
            found = await read_changes(cell, since)
            assert found is not None
            read.extend(seat.node_id for seat in found.seats)
            return found

        ledger.read_cell, ledger.read_changes = whole, changes
        nodes[1].cut()
        await world.until(lambda: world.sees("a", "n2", ready=False))
        assert set(read) == {"n2"}
        assert world.sees("a", "n1")
        assert world.sees("a", "n3")
        await world.move("n1", to="c")
        await world.until(lambda: nodes[0].node_id in read)
        assert set(read) == {"n1", "n2"}

    play_together(story, names=THREE)


def test_a_change_that_no_instance_heard_of_is_found_at_the_next_look() -> None:
    async def story(world: ClusterWorld) -> None:
        world.hub.faults.lost_changes = 1.0
        node = await world.node("n", at="b")
        node.cut()
        await world.until(lambda: world.sees("a", "n", ready=False), seconds=1.1)

    play_together(story)


def test_marks_reach_everybody_and_end_everywhere() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b")
        await node.say(ModelNotAvailable("nmt-1", "not loaded"))
        await asyncio.sleep(0.1)
        refused = await world.submit("a", "r1")
        assert refused.refusal is not None
        assert refused.refusal.code == "MODEL_NOT_AVAILABLE"
        (mark,) = world["a"].plane.registry.known(NodeId("n")).marks
        assert (mark.service_id, mark.reason) == ("nmt-1", "not loaded")
        await asyncio.sleep(3)
        assert (await world.submit("a", "r2")).refusal is None

    play_together(story, scheduler__model_not_available__unavailable_ttl_seconds=2)


def test_one_of_many_instances_that_miss_a_model_has_the_catalog_read_anew() -> None:
    async def story(world: ClusterWorld) -> None:
        refreshed: list[str] = []
        for name, instance in world.instances.items():
            catalog = instance.plane.catalog
            catalog.refresh_soon = lambda name=name: refreshed.append(name)  # type: ignore[method-assign, misc]
        for number, name in enumerate(world.instances):
            node = await world.node(f"n{number}", at=name)
            await node.say(ModelNotAvailable("nmt-1", "not loaded"))
        await asyncio.sleep(0.5)
        assert sorted(refreshed) == ["a", "b", "c"], "each reads it once, asked for once"

    play_together(story, names=THREE)


def test_a_node_that_connects_elsewhere_leaves_its_old_connection() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a")
        before = node.client
        await world.move("n", to="b")
        await world.until(lambda: before.link.to_client.ended is not None, seconds=0.5)
        ended = before.link.to_client.ended
        assert ended is not None
        assert ended.code == CloseCode.SUPERSEDED
        await world.until(lambda: world.sees("a", "n"), seconds=1)
        assert len(world["a"].plane.registry) == 0
        job = await world.submit("a", "r1")
        assert (await job.end()).outcome is Outcome.SUCCESS

    play_together(story)


def test_an_old_connection_whose_note_was_lost_goes_with_its_next_heartbeat() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a")
        before = node.client
        world.hub.faults.lost_notes = world.hub.faults.lost_changes = 1.0
        world.cut_hub("a")
        await world.move("n", to="b")
        await asyncio.sleep(0.2)
        assert before.link.to_client.ended is None
        # A program that speaks over both connections.
        old, node._client = node._client, before
        await node.beat()
        node._client = old
        await world.until(lambda: before.link.to_client.ended is not None, seconds=0.5)

    play_together(story)


def test_a_pair_stays_known_while_its_node_moves() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="a", service=seconds(0.01))
        stop = False
        refusals: list[object] = []

        async def ask() -> None:
            number = 0
            while not stop:
                number += 1
                job = await world.submit("c", f"r{number}", may_wait=True)
                refusals.append(job.refusal)
                await asyncio.sleep(0.003)

        asking = asyncio.create_task(ask())
        for _ in range(4):
            for name in ("b", "a"):
                await world.move("n", to=name)
                await asyncio.sleep(0.3)
        stop = True
        await asking
        assert not any(isinstance(refusal, PairUnsupported) for refusal in refusals)

    play_together(story, names=THREE)


def test_an_operator_drains_and_resumes_a_node_from_any_instance() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b")
        registry = world["a"].plane.registry
        await registry.drain(NodeId("n"), "to be mended")
        await world.until(lambda: world.status("b", "n") is NodeHealth.DRAINING, seconds=0.5)
        await world.until(lambda: world.status("a", "n") is NodeHealth.DRAINING, seconds=0.5)
        assert Command.DRAIN in controls(node)
        assert isinstance((await world.submit("a", "r1")).refusal, NoAvailableNode)
        await registry.resume(NodeId("n"))
        await world.until(lambda: world.sees("a", "n") and world.sees("b", "n"), seconds=2)
        assert (await world.submit("a", "r2")).refusal is None

    play_together(story)


def test_the_nodes_of_a_dead_instance_are_taken_out_of_service() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(60))
        job = await world.submit("a", "r1", may_wait=True)
        await world.until(lambda: len(node.working) == 1)
        await world.kill("b")
        await world.until(lambda: world.status("a", "n") is NodeHealth.OFFLINE, seconds=15)
        assert "b" not in world.hub.instances
        await node.stop()
        await world.node_anywhere("m", at="a", service=seconds(0.1))
        assert (await job.end()).outcome is Outcome.SUCCESS
        await asyncio.sleep(60)
        assert await world.held() == 0

    play_together(
        story,
        scheduler__node_health__heartbeat_interval_seconds=1,
        scheduler__node_health__heartbeat_timeout_seconds=4,
    )


def test_a_node_that_is_lost_while_the_ledger_is_away_loses_its_work_once_it_is_back() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a", service=seconds(1000))
        errand = await world.submit("a", "r1")
        await world.until(lambda: bool(node.working))
        await world.node("m", at="b", service=seconds(0.1))
        world["a"].access.cut.add(world.ledger)
        node.cut()
        await asyncio.sleep(5)
        assert world.status("a", "n") is NodeHealth.OFFLINE
        world["a"].access.cut.clear()
        record = await errand.end(seconds=3)
        assert record.outcome is Outcome.SUCCESS

    play_together(story)


def test_nodes_of_a_dead_instance_that_never_come_back_are_forgotten() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b")
        await world.kill("b")
        await node.stop()
        await asyncio.sleep(40)
        assert (await world.size())["nodes"] == 1
        await asyncio.sleep(40)
        assert (await world.size())["nodes"] == 0
        assert (await world.size())["seats"] == 0
        await asyncio.sleep(60)
        assert len(world["a"].plane.registry.far) == 0

    play_together(story, scheduler__node_health__forget_offline_seconds=60)


def test_an_instance_that_begins_anew_gives_no_work_to_the_nodes_of_its_earlier_life() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b")
        await world.kill("b")
        await world.begin("b")
        await world.until(lambda: world.sees("a", "n", ready=False), seconds=0.2)
        assert world.sees("b", "n", ready=False)

    play_together(story)


def test_nothing_is_taken_from_an_instance_that_came_back_under_its_name() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b")
        await world.kill("b")
        await world.begin("b")
        await world.move("n", to="b")
        await world.until(lambda: world.sees("a", "n"))
        await asyncio.sleep(20)
        assert node.connected
        assert world.sees("a", "n")
        assert (await world.submit("a", "r1")).refusal is None

    play_together(story)


def test_an_instance_that_stood_still_drops_its_sockets_before_it_hears_anything() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", service=seconds(0.1))
        before = node.client
        world.pause("b")
        await asyncio.sleep(20)
        handled = world["b"].plane.registry.node(NodeId("n")).last_beat
        world.resume("b")
        await world.until(lambda: not node.connected, seconds=2)
        assert before.link.to_client.ended is not None
        assert world["b"].plane.registry.node(NodeId("n")).last_beat == handled
        await world.until(lambda: world.is_present("b"))
        await node.connect()
        await world.until(lambda: world.sees("a", "n") and world.sees("b", "n"))
        assert (await (await world.submit("a", "r1")).end()).outcome is Outcome.SUCCESS

    play_together(story)


def test_the_sweep_is_shared_by_all_who_are_present() -> None:
    async def story(world: ClusterWorld) -> None:
        def shares() -> list[Share]:
            rosters = [i.plane.member for i in world.instances.values()]
            return [n.roster.share() for n in rosters if n is not None]

        await world.until(lambda: shares() == [Share(0, 3), Share(1, 3), Share(2, 3)], seconds=3)
        await world.kill("b")
        await world.until(lambda: shares() == [Share(0, 2), Share(1, 2)], seconds=10)
        world.cut_hub("a")
        await world.until(lambda: shares()[0] == Share(0, 1), seconds=3)

    play_together(story, names=THREE)


def test_a_cell_that_lost_its_memory_is_rebuilt_from_what_its_nodes_say() -> None:
    async def story(world: ClusterWorld) -> None:
        far = await world.node("far", at="b", service=seconds(6))
        near = await world.node("near", at="a", service=seconds(6))
        jobs = [await world.submit("a", f"r{number}") for number in range(4)]
        await world.until(lambda: len(far.working) + len(near.working) == 4)
        world.ledger._cells.clear()
        await asyncio.sleep(1.5)
        known = await world.submit("a", "r9", may_wait=True)
        assert known.refusal is None, "its pair is known, though nobody knows who has room"
        assert await world.held() == 5
        for job in (*jobs, known):
            assert (await job.end()).outcome is Outcome.SUCCESS
        assert await world.held() == 0
        assert far.over_limit + near.over_limit == 0

    play_together(story)


def test_while_cells_are_cold_a_pair_without_nodes_may_come_back() -> None:
    async def story(world: ClusterWorld) -> None:
        far = await world.node("far", at="b")
        far.behaviour.beats = False
        world.ledger._cells.clear()
        await asyncio.sleep(1.5)
        refused = await world.submit("a", "r1", src_lang="fi", tgt_lang="sv")
        assert isinstance(refused.refusal, NoAvailableNode)
        await asyncio.sleep(60)
        refused = await world.submit("a", "r2", src_lang="fi", tgt_lang="sv")
        assert isinstance(refused.refusal, PairUnsupported)

    play_together(story)
