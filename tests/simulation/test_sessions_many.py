"""Hundreds of conversations for ten minutes, while nodes die and return."""

from __future__ import annotations

import asyncio
import gc
from random import Random

import pytest
from tests.simulation.session_chaos import check_nothing_is_left
from tests.simulation.speakers import Speaker
from tests.simulation.world import World, play

from dragoman.live.gateway import MemoryNetwork
from dragoman.testing import exponential

SESSIONS = 300
NODES = 9
SECONDS = 600
ROOMS = tuple(
    f"dragoman.live.{room}" for room in ("sessions", "dispatch", "ledger", "fleet", "gateway")
)


class Conversation:
    """A client that says something about once a minute, and remembers only what it must."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._random = Random(f"{world.seed}/{number}")
        self.speaker = Speaker(world, acknowledges=True)
        self.said = 0
        self.heard: list[int] = []

    async def hold(self, until: float) -> None:
        random, speaker = self._random, self.speaker
        await asyncio.sleep(random.random() * 30)
        await speaker.connect()
        while self._world.clock.monotonic() < until:
            if random.random() < 0.1:
                speaker.cut(server_notices_after=random.choice((0.0, 1.0, None)))
                await asyncio.sleep(random.random() * 20)
            if not speaker.connected:
                ack = await speaker.come_back()
                assert ack is not None
                assert ack.resumed
            await speaker.say()
            self.said += 1
            await asyncio.sleep(40 + random.random() * 45)
            self._take_note()
        async with asyncio.timeout(120):
            while len(self.heard) < self.said:
                if not speaker.connected:
                    await speaker.come_back()
                await asyncio.sleep(1)
                self._take_note()

    def _take_note(self) -> None:
        speaker = self.speaker
        new = [end for end in speaker.ends if end.utterance_index >= len(self.heard)]
        self.heard += [end.utterance_index for end in new]
        speaker.ends = speaker.ends[-1:]
        speaker.heard.clear()


def objects_alive() -> int:
    """How many objects of the live plane there are."""
    gc.collect()
    return sum(str(type(thing).__module__).startswith(ROOMS) for thing in gc.get_objects())


async def trouble(world: World) -> None:
    """One node after another dies, with all its work, and comes back."""
    while True:
        await asyncio.sleep(world.random.expovariate(0.5))
        node = world.nodes[f"n{world.random.randrange(NODES)}"]
        if world.random.random() < 0.5:
            node.restart()
        else:
            node.cut(server_notices_after=world.random.choice((0.0, 1.0, None)))
        await asyncio.sleep(world.random.random() * 4)
        await node.connect()


@pytest.mark.slow
def test_hundreds_of_conversations_end_every_utterance_and_leave_nothing_behind() -> None:
    """Handles, groups and memberships once leaked when clients left without a word."""

    async def story(world: World) -> None:
        world.network = MemoryNetwork(Random(world.seed), codec=False)
        for number in range(NODES):
            await world.node(f"n{number}", slots=8, service=exponential(1.0))
        troubled = asyncio.create_task(trouble(world))
        until = world.clock.monotonic() + SECONDS
        conversations = [Conversation(world, number) for number in range(SESSIONS)]
        holding = [asyncio.create_task(conversation.hold(until)) for conversation in conversations]

        alive = []
        for share in (0.5, 0.75, 1.0):
            await asyncio.sleep(max(0.0, until - SECONDS * (1 - share) - world.clock.monotonic()))
            alive.append(objects_alive())
        for task in holding:
            await task
        troubled.cancel()

        for conversation in conversations:
            assert conversation.heard == list(range(conversation.said))
        assert sum(conversation.said for conversation in conversations) > 7 * SESSIONS
        assert max(alive) < min(alive) * 1.1, f"the second half grew: {alive}"

        for conversation in conversations:
            conversation.speaker.cut(server_notices_after=None)
        await world.pass_time(400)
        await check_nothing_is_left(world)

    play(
        story,
        scheduler__job_retention_seconds=100,
        scheduler__explain_max=1000,
    )
