"""Seeded schedules of faults: everything goes wrong for a while, then the laws must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random

from tests.simulation.far_ledger import far
from tests.simulation.world import World, play

from dragoman.errors import DependencyDown
from dragoman.live.gateway.memory import uniform
from dragoman.live.protocol import JobAck, JobClass, JobResult, NodeDrain, Outcome
from dragoman.live.shared import SharedLedger
from dragoman.testing import JobEnding, SimulatedNode, SubmittedJob, exponential

TOTAL_SECONDS = 12.0
SLACK_SECONDS = 3.0
"""How much later than its total time a live job may hear of its end, with a ledger that fails."""

SETTINGS = {
    "scheduler__job_timeout__ack_seconds": 1,
    "scheduler__job_timeout__run_seconds": 4,
    "scheduler__job_timeout__total_seconds": TOTAL_SECONDS,
    "scheduler__job_timeout__pending_seconds": 3,
    "scheduler__job_timeout__cancel_grace_seconds": 1,
    "scheduler__node_health__heartbeat_interval_seconds": 1,
    "scheduler__node_health__heartbeat_timeout_seconds": 3,
    "scheduler__node_health__reconnect_grace_seconds": 0.5,
    "scheduler__task_binding__lease_seconds": 5,
    "scheduler__task_binding__reserved_ttl_seconds": 5,
    "scheduler__job_retention_seconds": 5,
}
TROUBLED_SECONDS = 5.0
HEALING_SECONDS = 120.0
FORGOTTEN_SECONDS = 130

_OF_JOBS = {"held", "finished", "tombstones", "jobs", "open", "requests", "inputs"}
"""After its time, a lease and the retention nothing of a job is kept.

A batch job whose asker got no answer goes on, and may wait a minute for a node whose service is
marked unavailable.
"""


def run_schedule(seed: int) -> None:
    """One schedule, from its seed alone."""
    random = Random(seed)
    ledger = random.choice(("near", "late", "far", "failing"))
    wrap: Callable[[SharedLedger], SharedLedger] | None = {
        "near": None,
        "late": None,
        "far": far(random, seconds=0.03),
        "failing": far(random, seconds=0.03, failures=0.02),
    }[ledger]
    play(
        Schedule(random).act,
        seed=seed,
        delay=uniform(0.0, random.choice((0.0, 0.02, 0.2))),
        wrap=wrap,
        answers_late=0.05 if ledger == "late" else None,
        **SETTINGS,
    )


class Schedule:
    """What happens, to whom and when."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def act(self, world: World) -> None:
        random = self._random
        for number in range(random.randint(1, 4)):
            node = world.new_node(
                f"n{number}", slots=random.randint(1, 3), service=exponential(random.random() + 0.1)
            )
            await node.connect()
        async with asyncio.TaskGroup() as group:
            for node in list(world.nodes.values()):
                group.create_task(self._trouble(world, node))
            for number in range(random.randint(5, 18)):
                group.create_task(self._want(world, f"r{number}"))
        async with asyncio.TaskGroup() as group:
            healers = [group.create_task(self._heal(node)) for node in world.nodes.values()]
            await world.until(lambda: all(e.over for e in world.jobs), HEALING_SECONDS, every=0.25)
            await self._check(world)
            for healer in healers:
                healer.cancel()

    # --- the jobs --------------------------------------------------------------------------------

    async def _want(self, world: World, request_id: str) -> None:
        random = self._random
        await asyncio.sleep(random.random() * TROUBLED_SECONDS)
        errand = await world.submit(
            request_id,
            tenant=random.choice("ab"),
            may_wait=random.random() < 0.7,
            batch=random.random() < 0.3,
        )
        if errand.refusal is None and random.random() < 0.25:
            await asyncio.sleep(random.random() * 2)
            await self._try_cancel(world, errand)

    async def _try_cancel(self, world: World, errand: SubmittedJob) -> None:
        # When the ledger does not answer, nothing was promised.
        with suppress(DependencyDown):
            await world.cancel(errand)

    # --- the faults ------------------------------------------------------------------------------

    async def _trouble(self, world: World, node: SimulatedNode) -> None:
        random = self._random
        faults: list[Callable[[World, SimulatedNode], Awaitable[None]]] = [
            self._cut,
            self._pause,
            self._restart,
            self._supersede,
            self._misbehave,
            self._lie,
            self._drain,
            self._change_slots,
        ]
        started = world.clock.monotonic()
        while world.clock.monotonic() - started < TROUBLED_SECONDS:
            await asyncio.sleep(random.expovariate(0.7))
            await random.choice(faults)(world, node)
            if not node.connected:
                await node.connect()

    async def _cut(self, world: World, node: SimulatedNode) -> None:
        node.cut(server_notices_after=self._random.choice((0.0, 0.3, None)))
        await asyncio.sleep(self._random.random() * 2)

    async def _pause(self, world: World, node: SimulatedNode) -> None:
        if node.connected:
            node.pause()
            await asyncio.sleep(self._random.random() * 5)
            node.resume()
            await asyncio.sleep(0.3)

    async def _restart(self, world: World, node: SimulatedNode) -> None:
        node.restart()
        await asyncio.sleep(self._random.random())

    async def _supersede(self, world: World, node: SimulatedNode) -> None:
        await node.connect()

    async def _misbehave(self, world: World, node: SimulatedNode) -> None:
        random, manner = self._random, node.behaviour
        manner.answer = random.choice(list(JobEnding))
        manner.acks = random.random() < 0.8
        manner.obeys_cancel = random.random() < 0.8
        manner.beats = random.random() < 0.9
        await asyncio.sleep(random.random() * 3)
        behave(node)

    async def _lie(self, world: World, node: SimulatedNode) -> None:
        """Answer for attempts of others."""
        for other in world.nodes.values():
            for running in list(other.working.values()) if other is not node else ():
                await node.say(JobAck(running.job_id, running.attempt_id))
                lie = JobResult(running.job_id, running.attempt_id, True, text_translated="a lie")
                await node.say(lie)

    async def _drain(self, world: World, node: SimulatedNode) -> None:
        await node.say(NodeDrain())
        await asyncio.sleep(self._random.random())
        await node.connect()

    async def _change_slots(self, world: World, node: SimulatedNode) -> None:
        slots = self._random.randint(1, 3)
        if slots >= (node.behaviour.slots or 0):
            node.behaviour.slots = slots
            await node.beat(slots=slots)
            return
        await node.beat(slots=slots)
        # What was assigned before the ledger heard of it is still taken. A ledger that does not
        # answer hears of it with one of the next heartbeats.
        await asyncio.sleep(5.0)
        node.behaviour.slots = slots

    # --- the end ---------------------------------------------------------------------------------

    async def _heal(self, node: SimulatedNode) -> None:
        """Start anew, behave, and stay connected."""
        behave(node)
        node.restart()
        node.behaviour.slots = 3
        while True:
            if not node.connected:
                await node.connect()
            await asyncio.sleep(1.0)

    async def _check(self, world: World) -> None:
        for errand in world.jobs:
            check_end(errand)
        for node in world.nodes.values():
            attempts = [assign.attempt_id for assign in node.assigned]
            assert len(attempts) == len(set(attempts)), "an attempt was given twice"
            assert node.over_limit == 0, f"{node.node_id} was given more than it can take"
            lies = [end for errand in world.jobs for end in errand.ends if _is_lie(end.output)]
            assert not lies, "a node answered for another"
        await self._until_forgotten(world)
        assert set(world.plane.dispatcher.counts().values()) == {0}

    async def _until_forgotten(self, world: World) -> None:
        """A job whose asker got no answer may go on for a while; then nothing is left of any."""
        for _ in range(FORGOTTEN_SECONDS):
            await world.pass_time(1.0)
            kept = left_behind(await world.size())
            if not any(kept.values()):
                return
        raise AssertionError(f"left behind: {kept}")


def left_behind(size: Mapping[str, int]) -> dict[str, int]:
    """What a ledger keeps of jobs: nothing, when all have ended and are forgotten."""
    return {kind: kept for kind, kept in size.items() if kind in _OF_JOBS}


def behave(node: SimulatedNode) -> None:
    """Be an honest node again."""
    manner = node.behaviour
    manner.answer, manner.acks = JobEnding.WELL, True
    manner.obeys_cancel = manner.beats = True


def check_end(errand: SubmittedJob) -> None:
    """Refused or ended, once, and in time; a cancelled job is never answered as done."""
    if errand.refusal is not None:
        assert not errand.ends, "a refused job also ended"
        return
    assert len(errand.ends) == 1, f"{errand.spec.request_id} ended {len(errand.ends)} times"
    if errand.spec.job_class is JobClass.LIVE:
        took = (errand.ended_at or 0.0) - errand.asked_at
        assert took <= TOTAL_SECONDS + SLACK_SECONDS, f"{errand.spec.request_id} took {took}"
    if errand.cancelled:
        assert errand.outcome is Outcome.CANCELLED


def _is_lie(output: JobResult | None) -> bool:
    return output is not None and output.text_translated == "a lie"
