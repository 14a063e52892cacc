"""Seeded schedules of faults for several instances: then the laws must hold for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from tests.simulation import chaos
from tests.simulation.cluster_world import ClusterWorld, Instance, play_together
from tests.simulation.nodes import Answer, ScriptedNode, exponential
from tests.simulation.world import Errand

from dragoman.errors import DependencyDown, JobEnded, NotFound
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import JobClass, Outcome

NAMES = ("a", "b", "c")
TROUBLED_SECONDS = 6.0
HEALING_SECONDS = 150.0
FORGOTTEN_SECONDS = 90
SLACK_SECONDS = 8.0
"""How much later than its total time a job may end when instances die, pause and lose notes."""

SETTINGS = {**chaos.SETTINGS, "scheduler__job_retention_seconds": 30}


def run_schedule(seed: int) -> None:
    """One schedule, from its seed alone."""
    random = Random(seed)
    play_together(
        Schedule(random).act,
        names=NAMES,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        **SETTINGS,
    )


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calm = False
        self._delayed: set[Errand] = set()
        """Whose asker stood still: they hear of their end when it goes on."""

    async def act(self, world: ClusterWorld) -> None:
        random = self._random
        self._make_ways_long(world)
        for number in range(random.randint(2, 5)):
            node = world.new_node(
                f"n{number}",
                at=random.choice(NAMES),
                slots=random.randint(1, 3),
                service=exponential(random.random() + 0.1),
            )
            node.choose_instance = lambda node=node: self._send_somewhere(world, node)  # type: ignore[misc]
            await connect(node)
        async with asyncio.TaskGroup() as group:
            for node in list(world.nodes.values()):
                group.create_task(self._trouble_node(world, node))
            group.create_task(self._trouble_instances(world))
            for number in range(random.randint(6, 20)):
                group.create_task(self._want(world, f"r{number}"))
        await self._heal(world)
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep(node)) for node in world.nodes.values()]
            heard = [errand for errand in world.errands if not errand.asker_is_gone]
            await world.until(lambda: all(e.over for e in heard), HEALING_SECONDS, every=0.25)
            await self._check(world)
            for keeper in keepers:
                keeper.cancel()

    def _make_ways_long(self, world: ClusterWorld) -> None:
        random, faults = self._random, world.hub.faults
        faults.lost_notes = random.choice((0.0, 0.0, 0.1, 0.5))
        faults.lost_changes = random.choice((0.0, 0.0, 0.1, 0.9))
        faults.lost_answers = random.choice((0.0, 0.02))
        faults.late_seconds = random.choice((0.0, 0.05, 1.0))
        self._seconds = random.choice((0.0, 0.02))
        self._failures = random.choice((0.0, 0.0, 0.02))
        for instance in world.instances.values():
            self._lengthen(instance)

    def _lengthen(self, instance: Instance) -> None:
        instance.door.seconds, instance.door.failures = self._seconds, self._failures

    def _send_somewhere(self, world: ClusterWorld, node: ScriptedNode) -> None:
        if world.instances:
            instance = self._random.choice(list(world.instances.values()))
            node.goes_to(instance.network, instance.plane.node_endpoint)

    # --- the jobs --------------------------------------------------------------------------------

    async def _want(self, world: ClusterWorld, request_id: str) -> None:
        random = self._random
        await asyncio.sleep(random.random() * TROUBLED_SECONDS)
        if not world.instances:
            return
        at = random.choice(list(world.instances))
        errand = await world.submit(
            at,
            request_id,
            tenant=random.choice("ab"),
            may_wait=random.random() < 0.7,
            batch=random.random() < 0.3,
        )
        if errand.refusal is None and random.random() < 0.25:
            await asyncio.sleep(random.random() * 2)
            await self._try_cancel(world, errand)

    async def _try_cancel(self, world: ClusterWorld, errand: Errand) -> None:
        if not world.instances:
            return
        instance = self._random.choice(list(world.instances.values()))
        # When the ledger does not answer, nothing was promised.
        with suppress(DependencyDown, JobEnded, NotFound):
            await instance.plane.dispatcher.cancel(errand.job_id)
            errand.cancelled = True

    # --- the faults of instances -----------------------------------------------------------------

    async def _trouble_instances(self, world: ClusterWorld) -> None:
        random = self._random
        faults: list[Callable[[ClusterWorld, str], Awaitable[None]]] = [
            self._kill,
            self._kill_in_the_act,
            self._pause,
            self._cut_hub,
            self._roll,
        ]
        started = world.clock.monotonic()
        while world.clock.monotonic() - started < TROUBLED_SECONDS:
            await asyncio.sleep(random.expovariate(0.6))
            if world.instances:
                await random.choice(faults)(world, random.choice(list(world.instances)))

    async def _kill(self, world: ClusterWorld, name: str) -> None:
        await world.kill(name)
        await self._begin_again(world, name)

    async def _kill_in_the_act(self, world: ClusterWorld, name: str) -> None:
        random = self._random
        world.die_at(name, random.randint(1, 30), before=random.random() < 0.5)
        await world.until(lambda: name not in world.instances, seconds=60)
        await self._begin_again(world, name)

    async def _begin_again(self, world: ClusterWorld, name: str) -> None:
        random = self._random
        await asyncio.sleep(random.random() * random.choice((0.1, 3, 8)))
        new_name = name if random.random() < 0.5 else f"{name}{random.randrange(1000)}"
        self._lengthen(await world.begin(new_name))

    async def _pause(self, world: ClusterWorld, name: str) -> None:
        self._delayed.update(world[name].errands)
        world.pause(name)
        await asyncio.sleep(self._random.random() * 8)
        self._delayed.update(world[name].errands)
        world.resume(name)
        await asyncio.sleep(0.3)

    async def _cut_hub(self, world: ClusterWorld, name: str) -> None:
        world.cut_hub(name)
        await asyncio.sleep(self._random.random() * 6)
        world.mend_hub(name)

    async def _roll(self, world: ClusterWorld, name: str) -> None:
        """A rolling restart: it ends in order, and begins again."""
        instance = world[name]
        instance.connections.refuse_new()
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await instance.plane.drain()
        for errand in instance.errands:
            errand.asker_is_gone = not errand.over
        await world.leave(name)
        await self._begin_again(world, name)

    # --- the faults of nodes ---------------------------------------------------------------------

    async def _trouble_node(self, world: ClusterWorld, node: ScriptedNode) -> None:
        random = self._random
        started = world.clock.monotonic()
        while world.clock.monotonic() - started < TROUBLED_SECONDS:
            await asyncio.sleep(random.expovariate(0.7))
            match random.randrange(5):
                case 0:
                    node.cut(server_notices_after=random.choice((0.0, 0.3, None)))
                case 1:
                    node.restart()
                case 2:
                    await connect(node)
                case 3:
                    node.manner.answer = random.choice(list(Answer))
                    node.manner.acks = random.random() < 0.8
                    node.manner.obeys_cancel = random.random() < 0.8
                case _:
                    chaos.behave(node)
            await asyncio.sleep(random.random())
            if not node.connected:
                await connect(node)

    # --- the end ---------------------------------------------------------------------------------

    async def _heal(self, world: ClusterWorld) -> None:
        faults = world.hub.faults
        faults.lost_notes = faults.lost_changes = faults.lost_answers = 0.0
        self._failures = 0.0
        for name in NAMES:
            if not any(known.startswith(name) for known in world.instances):
                await world.begin(name)
        for instance in world.instances.values():
            self._lengthen(instance)
            instance.door.dies_at = 0
        for node in world.nodes.values():
            chaos.behave(node)
            node.restart()
            node.manner.slots = 3

    async def _keep(self, node: ScriptedNode) -> None:
        while True:
            if not node.connected:
                await connect(node)
            await asyncio.sleep(1.0)

    async def _check(self, world: ClusterWorld) -> None:
        for errand in world.errands:
            if not errand.asker_is_gone:
                self._check_end(errand)
        for node in world.nodes.values():
            attempts = [assign.attempt_id for assign in node.assigned]
            assert len(attempts) == len(set(attempts)), "an attempt was given twice"
            assert node.over_limit == 0, f"{node.node_id} was given more than it can take"
        await self._until_forgotten(world)
        for name, instance in world.instances.items():
            counts = instance.plane.dispatcher.counts()
            assert set(counts.values()) == {0}, f"{name} still has {counts}"
            for node in world.nodes.values():
                assert world.sees(name, str(node.node_id)), f"{name} does not know {node.node_id}"

    def _check_end(self, errand: Errand) -> None:
        if errand.refusal is not None:
            assert not errand.ends, "a refused job also ended"
            return
        assert len(errand.ends) == 1, f"{errand.spec.request_id} ended {len(errand.ends)} times"
        if errand.spec.job_class is JobClass.LIVE and errand not in self._delayed:
            took = (errand.ended_at or 0.0) - errand.asked_at
            assert took <= chaos.TOTAL_SECONDS + SLACK_SECONDS, f"{errand.spec.request_id}: {took}"
        if errand.cancelled:
            assert errand.outcome is Outcome.CANCELLED

    async def _until_forgotten(self, world: ClusterWorld) -> None:
        """Jobs whose asker died go on for a while; then nothing is left of any."""
        for _ in range(FORGOTTEN_SECONDS):
            await world.pass_time(1.0)
            size = await world.size()
            kept = {kind: size[kind] for kind in ("held", "ended", "jobs", "bindings", "inputs")}
            if not any(kept.values()):
                return
        raise AssertionError(f"left behind: {kept}")


async def connect(node: ScriptedNode) -> None:
    """Connect, if the instance that was chosen still takes anybody."""
    with suppress(ConnectionClosed):
        await node.connect()
