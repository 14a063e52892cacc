"""The server that instances share comes back as it was seconds ago, while instances die.

Clients of the SDK talk meanwhile. Whatever they are told, within a session every number stands for
one end, and the ends of a target come in order; over all sessions every utterance ends once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.simulation import schedules
from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import DragomanError
from dragoman.ids import SessionId
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import (
    Message,
    MissingResult,
    SchedulerToClient,
    SessionInitAck,
    TranslationResult,
)
from dragoman.sdk import SessionClient, Unreachable
from dragoman.testing import MemoryLink, MemorySessionConnect, exponential

TEST = "tests/simulation/test_cluster_old_dumps.py"
NAMES = ("a", "b", "c")
TARGETS = (("en",), ("en", "zh"))
TROUBLED_SECONDS = 25.0
HEALING_SECONDS = 300.0


class HeardLink:
    """A connection that writes down which ends came over it."""

    def __init__(self, link: MemoryLink[SchedulerToClient], talk: Talk) -> None:
        self._link = link
        self._talk = talk

    async def send(self, message: Message) -> None:
        await self._link.send(message)

    async def receive(self) -> SchedulerToClient:
        message = await self._link.receive()
        match message:
            case SessionInitAck(session_id=session_id):
                self._talk.session_id = session_id
            case TranslationResult() | MissingResult():
                end = (message.utterance_index, message.tgt_lang)
                self._talk.heard[self._talk.session_id].append((message.delivery_seq, end))
        return message

    async def close(self) -> None:
        await self._link.close()


class Talk:
    """One client, at any instance, until all that it said has ended."""

    def __init__(self, world: ClusterWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self._targets = random.choice(TARGETS)
        self.session_id = SessionId("")
        self.heard: defaultdict[SessionId, list[tuple[int, Any]]] = defaultdict(list)
        self._results: list[tuple[int, str | None]] = []
        self._said = 0

    async def lead(self, until: float) -> None:
        while not self.session_id:
            # Before there is a session the client leaves it to its caller to knock again.
            with suppress(Unreachable):
                await self._converse(until)
            await asyncio.sleep(0.5)

    async def _converse(self, until: float) -> None:
        random, clock = self._random, self._world.clock
        client = SessionClient(
            self._connect,
            src_lang="zh" if self._targets == ("en",) else "de",
            tgt_langs=list(self._targets),
            if_gone="restart",
            reconnect_seconds=HEALING_SECONDS,
            clock=clock,
            random=random,
        )
        async with client as session:
            reading = asyncio.create_task(self._read(session))
            while clock.monotonic() < until:
                await session.say(f"{self._said}")
                self._said += 1
                await asyncio.sleep(random.expovariate(1.5))
            async with asyncio.timeout(HEALING_SECONDS):
                await session.close()
                await reading

    async def _read(self, session: SessionClient) -> None:
        async for result in session.results():
            self._results.append((result.utterance_index, result.tgt_lang))

    async def _connect(self) -> HeardLink:
        alive = sorted(self._world.instances)
        instance = self._world.instances[self._random.choice(alive)]
        try:
            async with asyncio.timeout(2.0):
                connect = MemorySessionConnect(instance.network, instance.plane.session_endpoint)
                return HeardLink(await connect(), self)
        except (DragomanError, TimeoutError) as error:
            raise Unreachable(str(error)) from None

    def check(self) -> None:
        for target in self._targets:
            indexes = [index for index, language in self._results if language == target]
            assert indexes == list(range(self._said)), f"{target}: {indexes}"
        for session_id, heard in self.heard.items():
            meaning: dict[int, Any] = {}
            for number, end in heard:
                assert meaning.setdefault(number, end) == end, f"{session_id}: {number} was {end}"
            assert list(meaning) == list(range(1, len(meaning) + 1)), list(meaning)
            for target in self._targets:
                own = [index for index, language in meaning.values() if language == target]
                assert own == sorted(set(own)), f"{session_id}, {target}: {own}"


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def act(self, world: ClusterWorld) -> None:
        random = self._random
        languages = ("zh", "en", "de")
        for number in range(2):
            node = world.new_node(
                f"n{number}",
                random.choice(NAMES),
                slots=random.randint(2, 6),
                service=exponential(random.choice((0.2, 2.0))),
                nmt=languages,
                tts=languages,
                asr=languages,
            )
            await node.connect()
        until = world.clock.monotonic() + TROUBLED_SECONDS
        talks = [Talk(world, random) for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep_connected(world, name)) for name in world.nodes]
            talking = [group.create_task(talk.lead(until)) for talk in talks]
            while world.clock.monotonic() < until - 3:
                await self._come_back_old(world)
                await asyncio.sleep(random.random() * 5)
            for task in talking:
                await task
            for keeper in keepers:
                keeper.cancel()
        for talk in talks:
            talk.check()

    async def _come_back_old(self, world: ClusterWorld) -> None:
        random, server = self._random, world.server
        dump = server.memory()
        for _ in range(random.randint(0, 2)):
            await asyncio.sleep(random.random() * 3)
            await self._end_one(world)
        await asyncio.sleep(random.random() * 3)
        server.stop()
        await asyncio.sleep(random.random() * random.choice((0.0, 2.0)))
        server.fail_over(dump)
        await asyncio.sleep(random.random() * random.choice((0.0, 0.2, 2.0)))
        await self._end_one(world)

    async def _end_one(self, world: ClusterWorld) -> None:
        """An instance dies or leaves, and another begins in its place."""
        random = self._random
        name = random.choice(sorted(world.instances))
        match random.randrange(3):
            case 0:
                return
            case 1:
                await world.kill(name)
            case _:
                await world.leave(name)
        await asyncio.sleep(random.random())
        await world.begin(name)

    async def _keep_connected(self, world: ClusterWorld, name: str) -> None:
        while True:
            await asyncio.sleep(self._random.random())
            if not world.nodes[name].connected:
                try:
                    await world.move(name, self._random.choice(sorted(world.instances)))
                except ConnectionClosed:
                    continue


def run_schedule(seed: int) -> str:
    """One schedule, from its seed alone; answers the digest of what happened."""
    random = Random(seed)
    return play_together(
        Schedule(random).act,
        names=NAMES,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        scheduler__delivery__gap_grace_ms=2000,
        scheduler__delivery__resume_grace_seconds=30,
        scheduler__job_timeout__ack_seconds=3,
    )


@schedules.all_but_one
@pytest.mark.parametrize("seeds", schedules.shares(20), ids=schedules.named)
def test_every_utterance_ends_once_and_in_order_though_the_server_comes_back_old(
    seeds: range,
) -> None:
    schedules.run_all(run_schedule, seeds, TEST)


@schedules.one_again
def test_one_schedule_again() -> None:
    schedules.run_one_again(run_schedule, TEST)
