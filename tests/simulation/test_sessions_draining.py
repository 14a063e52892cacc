"""What becomes of a conversation when its server drains."""

from __future__ import annotations

import asyncio

from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import open_roamer
from tests.simulation.speakers import BYTES_PER_MS, Speaker, open_speaker
from tests.simulation.world import World, play

from dragoman.live.protocol import Cut, ServerHeartbeat
from dragoman.testing import seconds


async def heard(world: World, speaker: Speaker) -> None:
    """Wait until the server has taken in all that was said so far."""
    await speaker.beat()
    await world.until(lambda: bool(speaker.told(ServerHeartbeat)))


def test_a_sentence_not_yet_cut_when_the_server_drains_is_cut_and_carried_out() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(0.5))
        speaker = await open_speaker(world)
        await speaker.speak(300)
        await heard(world, speaker)
        draining = asyncio.create_task(world.plane.drain())
        await speaker.until_ended(1, seconds=2)
        await draining
        assert [(assign.cut, len(assign.audio or b"")) for assign in node.assigned] == [
            (Cut.CLOSE, 300 * BYTES_PER_MS)
        ]
        assert len(speaker.results) == 1
        await world.until(lambda: not speaker.connected, seconds=1)
        assert speaker.close_code == 1001

    play(story)


def test_sentences_that_wait_for_room_are_carried_out_before_the_client_is_sent_on() -> None:
    async def story(world: World) -> None:
        await world.node("n", slots=9, service=seconds(0.5))
        speaker = await open_speaker(world)
        for _ in range(5):
            await speaker.speak(100, final=True)
        await speaker.speak(100)
        await heard(world, speaker)
        await world.plane.drain()
        await world.until(lambda: not speaker.connected, seconds=1)
        assert [end.utterance_index for end in speaker.results] == [0, 1, 2, 3, 4, 5]
        assert speaker.close_code == 1001

    play(story, limits__max_inflight_per_session=2)


def test_what_is_said_after_the_drain_began_is_not_taken_in() -> None:
    async def story(world: World) -> None:
        node = await world.node("n", service=seconds(0.5))
        speaker = await open_speaker(world)
        await speaker.speak(100)
        await heard(world, speaker)
        draining = asyncio.create_task(world.plane.drain())
        await world.until(lambda: bool(node.assigned))
        await speaker.speak(100, final=True)
        await draining
        await world.until(lambda: not speaker.connected)
        assert len(node.assigned) == len(speaker.ends) == 1

    play(story)


def test_a_drain_ends_when_every_client_is_away() -> None:
    async def story(world: World) -> None:
        await world.node("n")
        speaker = await open_speaker(world)
        await speaker.speak(100)
        speaker.cut()
        await world.pass_time(0.1)
        async with asyncio.timeout(1):
            await world.plane.drain()

    play(story)


def test_the_next_instance_goes_on_after_the_sentence_that_was_cut() -> None:
    async def story(world: ClusterWorld) -> None:
        node = await world.node("n", at="b", slots=9, service=seconds(0.2))
        speaker = await open_roamer(world, "a", acknowledges=True)
        await speaker.speak(300)
        await asyncio.sleep(0.1)  # on its way
        await world["a"].plane.drain()
        await world.until(lambda: not speaker.connected, seconds=1)
        await world.leave("a")
        ack = await speaker.go_on_at("b")
        assert (ack.resumed, ack.next_chunk_seq) == (True, 1)
        await speaker.speak(200, final=True)
        await speaker.until_ended(2)
        speaker.check(2)
        assert [(assign.cut, len(assign.audio or b"")) for assign in node.assigned] == [
            (Cut.CLOSE, 300 * BYTES_PER_MS),
            (Cut.FINAL, 200 * BYTES_PER_MS),
        ]

    play_together(story)
