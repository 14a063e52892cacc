"""Whatever happens to instances and their ledger: every utterance ends once, in its place.

Seeded schedules of clients that turn to any instance; a failure names its seed.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.unit.live.sessions.instances import Client, World, play
from tests.unit.live.sessions.unreliable import (
    SESSION_MS,
    forget_everything,
    go_back,
    memory_of,
)

from dragoman import errors

NAMES = "abc"
TARGETS = (("en",), ("en", "es"), ("en", "xx"))
SCHEDULES = 40
TROUBLED_SECONDS = 6.0
LEFT_SECONDS = 200
"""A session that another took the place of, unheard of, ends with its client's silence."""


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_every_utterance_ends_once_and_in_order_at_whatever_instance(seed: int) -> None:
    play(Schedule(seed, forgets=False).act, seed=seed, names=NAMES, **SETTINGS)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_also_where_the_ledger_goes_back_or_forgets(seed: int) -> None:
    play(Schedule(seed, forgets=True).act, seed=seed, names=NAMES, **SETTINGS)


SETTINGS = {"scheduler": {"delivery": {"resume_grace_seconds": 30}}}


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, seed: int, *, forgets: bool) -> None:
        self.random = Random(seed)
        self.forgets = forgets
        self.calm = False

    async def act(self, world: World) -> None:
        random = self.random
        world.loses_notes = random.random() < 0.3
        world.service_seconds = random.choice((0.05, 0.5))
        self.lose(world)
        talks = [Talk(world, random, self) for _ in range(random.randint(1, 3))]
        speaking = [asyncio.create_task(talk.speak()) for talk in talks]
        ends = world.clock.monotonic() + TROUBLED_SECONDS
        old = memory_of(world.ledger)
        while world.clock.monotonic() < ends:
            await asyncio.sleep(random.random())
            draw = random.random()
            if draw < 0.2:
                name = random.choice(sorted(world.instances))
                if len(world.instances) > 1:
                    world.kill(name)
                    world.begin(name)
                    self.lose(world)
            elif draw < 0.3 and self.forgets:
                go_back(world.ledger, old)
            elif draw < 0.35 and self.forgets:
                forget_everything(world.ledger)
            elif draw < 0.6:
                old = memory_of(world.ledger)
        self.calm = True
        for instance in world.instances.values():
            instance.shared.loses = instance.shared.repeats = 0.0
        await asyncio.gather(*speaking)
        for talk in talks:
            await talk.hear_the_rest()
        await asyncio.sleep(LEFT_SECONDS)
        for talk in talks:
            if await world.record(talk.client.session_id) is not None:
                # It was written once more after its end, by a step that came late: it lapses.
                await asyncio.sleep(SESSION_MS / 1000)
            assert await world.record(talk.client.session_id) is None
        for instance in world.instances.values():
            assert len(instance.sessions) == 0
            assert instance.budget.used == 0

    def lose(self, world: World) -> None:
        for instance in world.instances.values():
            instance.shared.loses = self.random.choice((0.0, 0.05, 0.2))
            instance.shared.repeats = self.random.choice((0.0, 0.2))
            instance.shared.longest_seconds = self.random.choice((0.0, 0.01, 0.1))


class Talk:
    """A client that says a number of utterances, and turns to any instance."""

    def __init__(self, world: World, random: Random, schedule: Schedule) -> None:
        self.world = world
        self.random = random
        self.schedule = schedule
        self.utterances = random.randint(3, 20)
        self.client = Client(world, *random.choice(TARGETS), acknowledges=random.random() < 0.7)

    async def speak(self) -> None:
        random, client = self.random, self.client
        for _ in range(self.utterances):
            await asyncio.sleep(random.expovariate(3))
            if random.random() < 0.25 and client.is_connected:
                client.leave(noticed=random.random() < 0.7)
                await asyncio.sleep(random.random())
            await self.stay_connected()
            client.say()

    async def hear_the_rest(self) -> None:
        client = self.client
        ends = self.utterances * len(client.targets)
        async with asyncio.timeout(200):
            while len(client.ends) < ends:
                await self.stay_connected()
                await asyncio.sleep(0.2)
            client.check(self.utterances)
            assert len(client.ends) == ends
            while client.link is None or client.link.why != "finished":
                await self.stay_connected()
                assert client.session is not None
                client.session.close()
                await asyncio.sleep(0.2)

    async def stay_connected(self) -> None:
        """Open the session, or go on with it, wherever that can be had."""
        client = self.client
        while not client.is_connected:
            name = self.random.choice(sorted(self.world.instances))
            before = client.session_id
            try:
                async with asyncio.timeout(2):
                    await client.connect(name)
            except (errors.DependencyDown, TimeoutError):
                await asyncio.sleep(0.2)
                continue
            if before and client.session_id != before:
                assert self.schedule.forgets, "a session was lost within its grace"
                client.ends.clear()
                client.repeated.clear()
