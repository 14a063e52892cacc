"""Seeded schedules for sessions of three instances, over a server that may stop or forget.

Clients resume wherever they like. Then the laws must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from random import Random

from tests.simulation.chaos import SETTINGS
from tests.simulation.cluster_faults import NAMES, Trouble
from tests.simulation.cluster_world import ClusterWorld, play_together
from tests.simulation.roaming import Roamer, what_is_left
from tests.simulation.speakers import End
from tests.simulation.uncollected import uncollected_sessions

from dragoman.ids import SessionId
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import TranslationResult
from dragoman.testing import SimulatedNode, exponential

TROUBLED_SECONDS = 8.0
HEALING_SECONDS = 200.0
FORGOTTEN_SECONDS = 75
"""After the grace, a lease and the retention nothing of a session is kept."""

TARGETS = (("en",), ("en", "zh"), ("en", "fi"))
"""No node speaks the last one."""


def run_schedule(seed: int) -> str:
    """One schedule, from its seed alone; answers the digest of what happened."""
    random = Random(seed)
    return play_together(
        Schedule(random).act,
        names=NAMES,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        limits__max_inflight_per_session=random.choice((2, 5, 64)),
        scheduler__session__heartbeat_interval_seconds=5,
        scheduler__session__heartbeat_timeout_seconds=20,
        scheduler__delivery__gap_grace_ms=2000,
        scheduler__delivery__resume_grace_seconds=30,
        **SETTINGS,
    )


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calm = False

    async def act(self, world: ClusterWorld) -> None:
        random = self._random
        trouble = self._draw_trouble(world)
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
                group.create_task(self._trouble_node(world, node)) for node in world.nodes.values()
            ]
            speaking = [group.create_task(talk.speak()) for talk in talks]
            await trouble.make(TROUBLED_SECONDS)
            await trouble.end()
            self._calm = True
            for task in speaking:
                await task
            for talk in talks:
                await talk.hear_the_rest()
            for talk in talks:
                talk.check()
                await talk.close()
            for keeper in keepers:
                keeper.cancel()
        for node in world.nodes.values():
            # A server that forgot grants can grant a slot twice: the node's own limit is the last.
            assert node.over_limit == 0 or world.server.forgot_at, f"too much for {node.node_id}"
        await self._until_forgotten(world, {talk.speaker.session_id for talk in talks})

    def _draw_trouble(self, world: ClusterWorld) -> Trouble:
        random, faults = self._random, world.hub.faults
        trouble = Trouble(world, random, loses_data=random.random() < 0.3)
        faults.lost_notes = random.choice((0.0, 0.2))
        faults.lost_changes = random.choice((0.0, 0.2))
        trouble.seconds = random.choice((0.0, 0.01, 0.03))
        trouble.failures = random.choice((0.0, 0.0, 0.02))
        return trouble

    async def _trouble_node(self, world: ClusterWorld, node: SimulatedNode) -> None:
        """Break a node now and then, and from the calm on keep it connected."""
        random = self._random
        while True:
            await asyncio.sleep(random.random())
            if not self._calm and node.connected and random.random() < 0.15:
                await self._break(node)
            if not node.connected:
                with contextlib.suppress(ConnectionClosed):
                    await world.move(node.node_id, random.choice(sorted(world.instances)))

    async def _break(self, node: SimulatedNode) -> None:
        random = self._random
        match random.randrange(3):
            case 0:
                node.cut(server_notices_after=random.choice((0.0, 0.3, None)))
            case 1:
                node.restart()
            case _:
                node.pause()
                await asyncio.sleep(random.random() * 5)
                node.resume()

    async def _until_forgotten(self, world: ClusterWorld, closed: set[SessionId]) -> None:
        """With everybody gone nothing is left; of sessions unheard of, when their grace is over."""
        for _ in range(FORGOTTEN_SECONDS):
            left = await what_is_left(world)
            # A record that no client heard of lapses with time, which those in memory do not.
            left |= {name: "record" for name in closed if await world.ledger.read_session(name)}
            if not left:
                break
            await asyncio.sleep(1.0)
        else:
            raise AssertionError(f"left behind: {left}")
        for _ in range(FORGOTTEN_SECONDS):
            # The renewal of records may hold one until its next round.
            instances = world.instances.values()
            held = [len(uncollected_sessions(each.plane.sessions)) for each in instances]
            if not any(held):
                return
            await asyncio.sleep(1.0)
        raise AssertionError(f"so many sessions stay in memory: {held}")


class Talk:
    """One client that speaks a number of utterances, and turns to any instance."""

    def __init__(self, world: ClusterWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self._targets = random.choice(TARGETS)
        self._utterances = random.randint(3, 15)
        self._typing = random.random() < 0.5
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
            while self._ended() < self._utterances * len(self._targets):
                await self._stay_connected()
                await asyncio.sleep(0.5)

    def _ended(self) -> int:
        return len({(end.utterance_index, end.tgt_lang) for end in self.speaker.ends})

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
                    await self.speaker.come_back()
            except TimeoutError:
                self.speaker.cut()
                continue
            lost = self.speaker.sessions_lost
            assert not lost or self._world.server.forgot_at, "a session was lost within its grace"
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
