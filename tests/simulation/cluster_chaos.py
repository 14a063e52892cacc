"""Seeded schedules of faults for several instances: then the laws must hold for all of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from tests.simulation import chaos
from tests.simulation.cluster_faults import NAMES, Trouble
from tests.simulation.cluster_world import ClusterWorld, play_together

from dragoman.errors import DependencyDown, JobEnded, NotFound
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import JobClass, Outcome
from dragoman.testing import JobEnding, SimulatedNode, SubmittedJob, exponential

TROUBLED_SECONDS = 6.0
HEALING_SECONDS = 150.0
FORGOTTEN_SECONDS = chaos.FORGOTTEN_SECONDS + 30
KNOWN_SECONDS = 20.0
"""By then instances know every node, also after the server lost all it knew."""
SLACK_SECONDS = 8.0
"""How much later than its total time a job may end when instances die, pause and lose notes."""


def run_schedule(seed: int) -> str:
    """One schedule, from its seed alone; answers the digest of what happened."""
    random = Random(seed)
    return play_together(
        Schedule(random).act,
        names=NAMES,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        **chaos.SETTINGS,
    )


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def act(self, world: ClusterWorld) -> None:
        random = self._random
        trouble = self._draw_trouble(world)
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
            group.create_task(trouble.make(TROUBLED_SECONDS))
            for number in range(random.randint(6, 20)):
                group.create_task(self._want(world, f"r{number}"))
        await trouble.end()
        self._heal_nodes(world)
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep(node)) for node in world.nodes.values()]
            heard = [errand for errand in world.jobs if not errand.asker_is_gone]
            await world.until(lambda: all(e.over for e in heard), HEALING_SECONDS, every=0.25)
            await self._check(world, trouble)
            for keeper in keepers:
                keeper.cancel()

    def _draw_trouble(self, world: ClusterWorld) -> Trouble:
        random, faults = self._random, world.hub.faults
        trouble = Trouble(world, random, loses_data=random.random() < 0.3)
        faults.lost_notes = random.choice((0.0, 0.0, 0.1, 0.5))
        faults.lost_changes = random.choice((0.0, 0.0, 0.1, 0.9))
        faults.lost_answers = random.choice((0.0, 0.02))
        faults.late_seconds = random.choice((0.0, 0.05, 1.0))
        trouble.seconds = random.choice((0.0, 0.02))
        trouble.failures = random.choice((0.0, 0.0, 0.02))
        return trouble

    def _send_somewhere(self, world: ClusterWorld, node: SimulatedNode) -> None:
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

    async def _try_cancel(self, world: ClusterWorld, errand: SubmittedJob) -> None:
        if not world.instances:
            return
        instance = self._random.choice(list(world.instances.values()))
        # When the ledger does not answer, nothing was promised.
        with suppress(DependencyDown, JobEnded, NotFound):
            await instance.plane.dispatcher.cancel(errand.job_id)
            errand.cancelled = True

    # --- the faults of nodes ---------------------------------------------------------------------

    async def _trouble_node(self, world: ClusterWorld, node: SimulatedNode) -> None:
        random = self._random
        started = world.clock.monotonic()
        while world.clock.monotonic() - started < TROUBLED_SECONDS:
            await asyncio.sleep(random.expovariate(0.7))
            match random.randrange(6):
                case 0:
                    node.cut(server_notices_after=random.choice((0.0, 0.3, None)))
                case 1:
                    node.restart()
                case 2:
                    await connect(node)
                case 3:
                    await self._pause_node(node)
                case 4:
                    node.behaviour.answer = random.choice(list(JobEnding))
                    node.behaviour.acks = random.random() < 0.8
                    node.behaviour.obeys_cancel = random.random() < 0.8
                case _:
                    chaos.behave(node)
            await asyncio.sleep(random.random())
            if not node.connected:
                await connect(node)

    async def _pause_node(self, node: SimulatedNode) -> None:
        if node.connected:
            node.pause()
            await asyncio.sleep(self._random.random() * 5)
            node.resume()

    # --- the end ---------------------------------------------------------------------------------

    def _heal_nodes(self, world: ClusterWorld) -> None:
        for node in world.nodes.values():
            chaos.behave(node)
            node.restart()
            node.behaviour.slots = 3

    async def _keep(self, node: SimulatedNode) -> None:
        while True:
            if not node.connected:
                await connect(node)
            await asyncio.sleep(1.0)

    async def _check(self, world: ClusterWorld, trouble: Trouble) -> None:
        for errand in world.jobs:
            if not errand.asker_is_gone:
                self._check_end(world, errand, trouble)
        for node in world.nodes.values():
            attempts = [assign.attempt_id for assign in node.assigned]
            assert len(attempts) == len(set(attempts)), "an attempt was given twice"
            # A server that forgot grants can grant a slot twice: the node's own limit is the last.
            assert node.over_limit == 0 or world.server.forgot_at, f"too much for {node.node_id}"
        await self._until_forgotten(world)
        for name, instance in world.instances.items():
            counts = instance.plane.dispatcher.counts()
            assert set(counts.values()) == {0}, f"{name} still has {counts}"
        await world.until(lambda: self._everybody_knows_every_node(world), KNOWN_SECONDS, every=0.5)

    def _everybody_knows_every_node(self, world: ClusterWorld) -> bool:
        return all(world.sees(name, node) for name in world.instances for node in world.nodes)

    def _check_end(self, world: ClusterWorld, errand: SubmittedJob, trouble: Trouble) -> None:
        if errand.refusal is not None:
            assert not errand.ends, "a refused job also ended"
            return
        assert len(errand.ends) == 1, f"{errand.spec.request_id} ended {len(errand.ends)} times"
        if errand.spec.job_class is JobClass.LIVE and errand not in trouble.held_up:
            took = (errand.ended_at or 0.0) - errand.asked_at
            assert took <= chaos.TOTAL_SECONDS + SLACK_SECONDS, f"{errand.spec.request_id}: {took}"
        if errand.cancelled and not world.server.forgot_at:
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


async def connect(node: SimulatedNode) -> None:
    """Connect, if the chosen instance still takes connections."""
    with suppress(ConnectionClosed):
        await node.connect()
