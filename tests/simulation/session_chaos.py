"""Seeded schedules for sessions: links break, nodes fail, stores lag; then the laws must hold."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random

from tests.simulation.chaos import SETTINGS, behave, left_behind
from tests.simulation.far_ledger import far
from tests.simulation.speakers import End, Speaker
from tests.simulation.uncollected import uncollected_sessions
from tests.simulation.world import World, play

from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import TranslationResult
from dragoman.testing import JobEnding, SimulatedNode, exponential

TROUBLED_SECONDS = 8.0
HEALING_SECONDS = 200.0
FORGOTTEN_SECONDS = 60.0
"""After the grace, a lease and the retention nothing of a session is kept."""

LONGEST_LEASE_SECONDS = 600.0

TARGETS = (("en",), ("en", "zh"), ("en", "fi"))
"""No node speaks the last one."""


def run_schedule(seed: int) -> None:
    """One schedule, from its seed alone."""
    random = Random(seed)
    lag = random.choice((None, far(random, seconds=0.03), far(random, seconds=0.03, failures=0.02)))
    play(
        Schedule(random).act,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        wrap=lag,
        answers_late=None if lag else random.choice((None, 0.05)),
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

    async def act(self, world: World) -> None:
        random = self._random
        for number in range(random.randint(1, 3)):
            node = world.new_node(
                f"n{number}", slots=random.randint(1, 3), service=exponential(random.random() / 2)
            )
            await node.connect()
        talks = [Talk(world, random) for _ in range(random.randint(1, 4))]
        async with asyncio.TaskGroup() as group:
            keepers = [
                group.create_task(self._trouble(world, node)) for node in world.nodes.values()
            ]
            speaking = [group.create_task(talk.speak()) for talk in talks]
            await asyncio.sleep(TROUBLED_SECONDS)
            self._calm = True
            for task in speaking:
                await task
            for talk in talks:
                await talk.hear_the_rest()
            for keeper in keepers:
                keeper.cancel()
        for talk in talks:
            talk.check()
            talk.speaker.cut()
        await world.pass_time(FORGOTTEN_SECONDS)
        await check_nothing_is_left(world)

    async def _trouble(self, world: World, node: SimulatedNode) -> None:
        """Break a node now and then, and from the calm on keep it well."""
        random = self._random
        while not self._calm:
            await asyncio.sleep(random.expovariate(0.7))
            match random.randrange(4):
                case 0:
                    node.cut(server_notices_after=random.choice((0.0, 0.3, None)))
                case 1:
                    node.restart()
                case 2:
                    node.behaviour.answer = random.choice(list(JobEnding))
                case _:
                    behave(node)
            await asyncio.sleep(random.random())
            if not node.connected:
                await node.connect()
        behave(node)
        node.restart()
        while True:
            if not node.connected:
                await node.connect()
            await asyncio.sleep(1.0)


class Talk:
    """One client that speaks a number of utterances, over a bad network."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._targets = random.choice(TARGETS)
        self._utterances = random.randint(3, 15)
        self._typing = random.random() < 0.5
        self.speaker = Speaker(world, acknowledges=True, tgt_langs=self._targets)

    async def speak(self) -> None:
        random, speaker = self._random, self.speaker
        while await speaker.connect() is None:
            continue
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

    async def _stay_connected(self) -> None:
        while not self.speaker.connected:
            ack = await self.speaker.come_back()
            assert ack is None or ack.resumed, "a session was lost within its grace"

    def check(self) -> None:
        """Per target every utterance ended once, in order, and nothing came twice."""
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


async def check_nothing_is_left(world: World) -> None:
    """With everybody gone, no table, timer, route or byte speaks of a session."""
    sessions = world.plane.sessions
    assert len(sessions) == 0
    assert not sessions._gone
    assert not sessions._by_tenant
    assert world.plane.budget.used == 0
    assert set(world.plane.dispatcher.counts().values()) == {0}
    assert len(world.plane.dispatcher.routes) == 0
    size = await world.size()
    assert set(left_behind(size).values()) == {0}, size
    for _ in range(int(LONGEST_LEASE_SECONDS)):
        # A creation that arrived when its asker had given up left a record, which expires.
        if not (await world.size()).get("sessions"):
            break
        await world.pass_time(1.0)
    else:
        raise AssertionError("a session's record does not expire")
    assert world.connections.counts.get("session", 0) == 0
    assert not uncollected_sessions(sessions)
