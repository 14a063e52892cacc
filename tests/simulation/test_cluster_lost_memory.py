"""The server that instances share stands still, loses its last moments, or all it knew."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import open_roamer

from dragoman.live.protocol import Outcome
from dragoman.testing import seconds


def everybody_knows_every_node(world: ClusterWorld) -> bool:
    return all(world.sees(name, node) for name in world.instances for node in world.nodes)


def test_an_instance_that_was_restarted_goes_on_when_the_server_knows_only_its_life_before() -> (
    None
):
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a")
        before = world.server.memory()
        for name in ("a", "b"):
            await world.kill(name)
            await world.begin(name)
        world.server.fail_over(before)
        await world.pass_time(10)
        await world.move("n", "a")
        await world.until(lambda: everybody_knows_every_node(world))
        for name in ("a", "b"):
            errand = await world.submit(name, f"at {name}", may_wait=True)
            assert (await errand.end()).outcome is Outcome.SUCCESS
        assert len(node.assigned) == 2

    play_together(story)


def test_nodes_that_report_in_another_order_are_known_to_all_again() -> None:
    async def story(world: ClusterWorld) -> None:
        first = await world.node("n0", at="a", service=seconds(9))
        await world.node("n1", at="b")
        await world.submit("a", "r", preferred_node_id="n0")
        await world.until(lambda: len(first.working) == 1)
        first.pause()
        world.server.restart_empty()
        # The other takes the first one's seat.
        await world.until(lambda: "n1" in world.ledger._directory.entries, seconds=10)
        # While the first gets a new one, its instance reads of the other in the old one.
        world["a"].access.seconds = 0.5
        first.resume()
        await world.until(lambda: everybody_knows_every_node(world), seconds=20)

    play_together(story)


def test_a_node_that_left_for_another_instance_is_known_there_though_epochs_began_anew() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="a")
        for _ in range(3):  # Each connection has a higher epoch than the one before it.
            await world.move("n", to="a")
        await world.until(lambda: everybody_knows_every_node(world))
        node.cut()
        await world.until(lambda: not world.sees("a", "n"))
        world.server.restart_empty()
        await world.move("n", to="b")
        await world.until(lambda: everybody_knows_every_node(world), seconds=20)

    play_together(story)


def test_a_job_asked_for_while_the_server_stands_still_is_refused_or_done_once() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=4, service=seconds(0.2))
        world.server.stop()
        asked = [asyncio.create_task(world.submit("a", f"r{n}", may_wait=True)) for n in range(3)]
        await asyncio.sleep(1.5)
        late = asyncio.create_task(world.submit("a", "late", may_wait=True))
        await asyncio.sleep(0.2)
        world.server.go_on()
        for errand in await asyncio.gather(*asked):
            assert errand.refusal is not None
            assert errand.refusal.code == "SCHEDULER_DEPENDENCY_DOWN"
        assert (await (await late).end()).outcome is Outcome.SUCCESS
        # The server does as it was told, though nobody waits for it any more.
        await world.until(lambda: not world.ledger._whereabouts.held, seconds=60)
        attempts = [assign.job_id for assign in node.assigned]
        assert len(attempts) == len(set(attempts))

    play_together(story)


def test_a_failover_that_forgets_a_job_keeps_the_node_at_its_own_limit() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=1, service=seconds(3))
        replica = world.server.memory()
        forgotten = await world.submit("a", "forgotten")
        await world.until(lambda: len(node.working) == 1)
        world.server.fail_over(replica)
        other = await world.submit("a", "other", may_wait=True)
        await world.until(lambda: forgotten.over and other.over)
        assert node.high_water == 1
        assert (len(forgotten.ends), len(other.ends) or other.refusal is not None) == (1, 1)
        await world.until(lambda: not world.ledger._whereabouts.held, seconds=30)

    play_together(story)


def test_a_speaker_hears_every_end_once_after_a_failover_that_forgets() -> None:
    async def story(world: ClusterWorld) -> None:
        await world.node("n", at="b", slots=4, service=seconds(0.3))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.say()
        await speaker.until_ended(1)
        replica = world.server.memory()
        await speaker.say()
        await speaker.say()
        await speaker.until_ended(3)
        world.server.fail_over(replica)
        await speaker.say()
        await speaker.until_ended(4)
        speaker.check(4)

    play_together(story)
