"""Seeded schedules for sessions of three instances: they are killed, paused, cut off and restarted.

Clients resume wherever they like. Then the laws must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from random import Random

from tests.simulation.chaos import SETTINGS
from tests.simulation.cluster_world import ClusterWorld, Instance, play_together
from tests.simulation.nodes import ScriptedNode, exponential
from tests.simulation.roaming import Roamer, check_nothing_is_left
from tests.simulation.speakers import End

from dragoman.live.gateway import ConnectionClosed
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import TranslationResult

NAMES = ("a", "b", "c")
TROUBLED_SECONDS = 8.0
HEALING_SECONDS = 200.0
FORGOTTEN_SECONDS = 75.0
"""After the grace, a lease and the retention nothing of a session is kept."""

TARGETS = (("en",), ("en", "zh"), ("en", "fi"))
"""Nobody speaks the last one."""


def run_schedule(seed: int) -> None:
    """One schedule, from its seed alone."""
    random = Random(seed)
    settings = SETTINGS | {"scheduler__job_retention_seconds": 30}
    play_together(
        Schedule(random).act,
        names=NAMES,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        limits__max_inflight_per_session=random.choice((2, 5, 64)),
        scheduler__session__heartbeat_interval_seconds=5,
        scheduler__session__heartbeat_timeout_seconds=20,
        scheduler__delivery__gap_grace_ms=2000,
        scheduler__delivery__resume_grace_seconds=30,
        **settings,
    )


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calm = False
        self._seconds = random.choice((0.0, 0.01, 0.03))
        self._failures = random.choice((0.0, 0.0, 0.02))

    async def act(self, world: ClusterWorld) -> None:
        random = self._random
        for instance in world.instances.values():
            self._trouble_door(instance)
        world.hub.faults.lost_notes = random.choice((0.0, 0.2))
        world.hub.faults.lost_changes = random.choice((0.0, 0.2))
        for number in range(random.randint(1, 3)):
            node = world.new_node(
                f"n{number}",
                random.choice(NAMES),
                slots=random.randint(1, 3),
                service=exponential(random.random() / 2),
            )
            await node.connect()
        talks = [Talk(world, random) for _ in range(random.randint(1, 4))]
        async with asyncio.TaskGroup() as group:
            keepers = [
                group.create_task(self._keep_connected(world, node))
                for node in world.nodes.values()
            ]
            trouble = group.create_task(self._trouble(world))
            speaking = [group.create_task(talk.speak()) for talk in talks]
            await asyncio.sleep(TROUBLED_SECONDS)
            self._calm = True
            await trouble
            for task in speaking:
                await task
            for talk in talks:
                await talk.hear_the_rest()
            for talk in talks:
                talk.check()
                await talk.close()
            for keeper in keepers:
                keeper.cancel()
        await asyncio.sleep(FORGOTTEN_SECONDS)
        await check_nothing_is_left(world)
        for talk in talks:
            # One whose client never heard of it lapses with time, which records in memory do not.
            assert await world.records.read(talk.speaker.session_id) is None

    def _trouble_door(self, instance: Instance) -> None:
        instance.door.seconds, instance.door.failures = self._seconds, self._failures

    async def _trouble(self, world: ClusterWorld) -> None:
        """Kill, pause, cut off and restart instances; at least one of them is always there."""
        random = self._random
        while not self._calm:
            await asyncio.sleep(random.expovariate(0.7))
            name = random.choice(sorted(world.instances))
            match random.randrange(4):
                case 0:
                    await world.kill(name)
                    await asyncio.sleep(random.random() * 3)
                    self._trouble_door(await world.begin(name))
                case 1:
                    world.pause(name)
                    await asyncio.sleep(random.random() * 5)
                    world.resume(name)
                case 2:
                    world.cut_hub(name)
                    await asyncio.sleep(random.random() * 3)
                    world.mend_hub(name)
                case _:
                    await world.leave(name)
                    self._trouble_door(await world.begin(name))
        world.hub.faults.lost_notes = world.hub.faults.lost_changes = 0.0
        for instance in world.instances.values():
            instance.door.failures = 0.0

    async def _keep_connected(self, world: ClusterWorld, node: ScriptedNode) -> None:
        while True:
            await asyncio.sleep(self._random.random())
            if not node.connected:
                with contextlib.suppress(ConnectionClosed):
                    await world.move(node.node_id, self._random.choice(sorted(world.instances)))


class Talk:
    """One client that speaks a number of utterances, and turns to any instance."""

    def __init__(self, world: ClusterWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self._targets = random.choice(TARGETS)
        self._utterances = random.randint(3, 15)
        self._typing = random.random() < 0.5
        self._opened = False
        self.speaker = Roamer(world, "a", acknowledges=True, tgt_langs=self._targets)

    async def speak(self) -> None:
        random, speaker = self._random, self.speaker
        for _ in range(self._utterances):
            await asyncio.sleep(random.expovariate(3))
            if random.random() < 0.25:
                speaker.cut(server_notices_after=random.choice((0.0, 0.3, None)))
                await asyncio.sleep(random.random() * 2)
            await self._stay_connected()
            if self._typing:
                await speaker.say()
            else:
                await speaker.speak(random.random() * 100 + 1, final=True)

    async def hear_the_rest(self) -> None:
        async with asyncio.timeout(HEALING_SECONDS):
            while len(self.speaker.ends) < self._utterances * len(self._targets):
                await self._stay_connected()
                await asyncio.sleep(0.5)

    async def close(self) -> None:
        async with asyncio.timeout(HEALING_SECONDS):
            while await self.speaker.close() != 1000:
                await self._stay_connected()

    async def _stay_connected(self) -> None:
        """Open the session, or go on with it, wherever that can be had."""
        while not self.speaker.connected:
            self.speaker.turn_to(self._random.choice(sorted(self._world.instances)))
            try:
                async with asyncio.timeout(2.0):
                    ack = await self.speaker.come_back()
            except TimeoutError:
                self.speaker.cut()
                continue
            if ack is not None:
                assert ack.resumed or not self._opened, "a session was lost within its grace"
                self._opened = True
                self.speaker.session_id = ack.session_id
            await asyncio.sleep(0.1)

    def check(self) -> None:
        """Per target every utterance ended once, in order, and no number changed its meaning."""
        by_target: dict[str | None, list[End]] = defaultdict(list)
        for end in self.speaker.ends:
            by_target[end.tgt_lang].append(end)
        assert set(by_target) == set(self._targets)
        for target, ends in by_target.items():
            indexes = [end.utterance_index for end in ends]
            assert indexes == list(range(self._utterances)), f"{target}: {indexes}"
        numbers = [end.delivery_seq for end in self.speaker.ends]
        assert numbers == list(range(1, len(numbers) + 1))
        assert not any(isinstance(end, TranslationResult) for end in by_target.get("fi", []))
        for again in self.speaker.repeated:
            assert again == self.speaker.ends[again.delivery_seq - 1], (
                "a number changed its meaning"
            )
