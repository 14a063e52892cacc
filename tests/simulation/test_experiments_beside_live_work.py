"""An experiment on the nodes that serve live traffic: live work does not notice it.

The load is the same in every run of a test: each job's time of arrival and its time on a node
follow from its name and the seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.world import World, play

from dragoman.live.protocol import JobAssign, JobClass, Outcome
from dragoman.testing import SubmittedJob

NODES, SLOTS_A_NODE = 20, 4
SLOTS = NODES * SLOTS_A_NODE
HEADROOM = 0.25
ITEMS, CONCURRENCY = 2_000, 64
SERVICE_SECONDS, ITEM_SECONDS = 1.0, 0.4
CANCEL_GRACE_SECONDS = 5.0
NODE_CANCEL_SECONDS = 0.2
"""How long a node takes to let go of a job."""

LOOK_SECONDS = 0.05
SEED = 20

PeakLoad = Callable[[float], float]
"""The live load at a time, as a share of all slots."""


def time_on_node(seed: int) -> Callable[[JobAssign], float]:
    """Jobs take as long on every node, whatever was assigned before them."""

    def seconds(assign: JobAssign) -> float:
        mean = ITEM_SECONDS if assign.job_class is JobClass.BATCH else SERVICE_SECONDS
        return Random(f"{seed}/{assign.text}").expovariate(1 / mean)

    return seconds


class Usage:
    """How many slots each class holds, looked at again and again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.samples: list[tuple[float, int, int]] = []
        """Time, slots of live work, slots of the experiment."""

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        held = [
            job.spec.job_class for job in self._world.plane.dispatcher._driver.attempts.values()
        ]
        batch = held.count(JobClass.BATCH)
        self.samples.append((self._world.clock.monotonic(), len(held) - batch, batch))

    def share_used(self, since: float, until: float) -> float:
        """How much of what live work leaves free, less the headroom, the experiment used."""
        kept = int(SLOTS * HEADROOM)
        free = used = 0
        for at, live, batch in self.samples:
            if since <= at <= until:
                allowed = max(0, SLOTS - live - kept)
                free += allowed
                used += min(batch, allowed)
        return used / free


class Live:
    """Live jobs that arrive as they would if there were no experiment."""

    def __init__(self, world: World, load: PeakLoad, seconds: float) -> None:
        self._world = world
        self._load = load
        self._seconds = seconds
        self.jobs: list[SubmittedJob] = []

    async def arrive(self) -> None:
        random = Random(f"{SEED}/arrivals")
        began = self._world.clock.monotonic()
        due = 0.0
        while due < self._seconds:
            due += random.expovariate(self._load(due) * SLOTS / SERVICE_SECONDS)
            await asyncio.sleep(began + due - self._world.clock.monotonic())
            name = f"live {len(self.jobs)}"
            self.jobs.append(await self._world.submit(name, text=name))

    @property
    def refused(self) -> int:
        return sum(job.refusal is not None for job in self.jobs)

    def dispatch_ms(self) -> list[int]:
        """How long each job that was served waited for its node, the longest last."""
        found = []
        for job in self.jobs:
            if job.ends:
                (record,) = job.ends
                found.append(record.attempts[-1].times.dispatched_ms - record.created_at_ms)
        return sorted(found)

    def p99_dispatch_ms(self) -> int:
        found = self.dispatch_ms()
        return found[int(0.99 * len(found))]


async def fleet(world: World) -> None:
    for number in range(NODES):
        await world.node(
            f"n{number}",
            slots=SLOTS_A_NODE,
            service_of=time_on_node(SEED),
            cancel_seconds=NODE_CANCEL_SECONDS,
        )


async def experiment(world: World) -> list[SubmittedJob]:
    """Items as the lab's fleet target asks for them: so many at once, each until its end."""
    names = iter([f"item {number}" for number in range(ITEMS)])
    jobs: list[SubmittedJob] = []

    async def work() -> None:
        for name in names:
            job = await world.submit(name, text=name, batch=True)
            jobs.append(job)
            await job.end(100_000)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return jobs


def check_items(jobs: list[SubmittedJob]) -> None:
    """No item lost, failed, or told of twice."""
    assert len(jobs) == ITEMS
    for job in jobs:
        assert len(job.ends) == 1
        assert job.outcome is Outcome.SUCCESS, job.code
        ended_well = [one for one in job.ends[0].attempts if one.outcome is Outcome.SUCCESS]
        assert len(ended_well) == 1


async def ended(live: Live) -> None:
    for job in live.jobs:
        if job.refusal is None:
            await job.end()


def test_live_work_at_70_percent_does_not_notice_an_experiment_that_uses_what_is_free() -> None:
    seconds = 120.0
    found: dict[str, tuple[int, int, int]] = {}

    async def alone(world: World) -> None:
        await fleet(world)
        live = Live(world, lambda _: 0.7, seconds)
        await live.arrive()
        await ended(live)
        found["alone"] = (len(live.jobs), live.refused, live.p99_dispatch_ms())

    async def beside(world: World) -> None:
        await fleet(world)
        live, usage = Live(world, lambda _: 0.7, seconds), Usage(world)
        watching = asyncio.create_task(usage.watch())
        began = world.clock.monotonic()
        arriving = asyncio.create_task(live.arrive())
        jobs = await experiment(world)
        over = world.clock.monotonic()
        assert over - began < seconds, "the live load lasted as long as the experiment"
        await arriving
        await ended(live)
        watching.cancel()
        check_items(jobs)
        found["beside"] = (len(live.jobs), live.refused, live.p99_dispatch_ms())
        share = usage.share_used(began + 5, over - 5)
        assert share >= 0.9, share
        for node in world.nodes.values():
            assert node.over_limit == 0

    play(alone, seed=SEED)
    play(beside, seed=SEED)
    assert found["beside"] == found["alone"], f"seed {SEED}"


def test_an_experiment_gives_way_when_live_load_fills_the_fleet_and_ends_when_it_falls() -> None:
    """Live work at 70 % for 20 s, more than all slots for 30 s, then at 40 %."""
    peak_from, peak_until, seconds = 20.0, 50.0, 200.0

    def load(at: float) -> float:
        if at < peak_from:
            return 0.7
        return 1.3 if at < peak_until else 0.4

    found: dict[str, int] = {}

    async def story(world: World) -> None:
        await fleet(world)
        live, usage = Live(world, load, seconds), Usage(world)
        watching = asyncio.create_task(usage.watch())
        began = world.clock.monotonic()
        arriving = asyncio.create_task(live.arrive())
        jobs = await experiment(world)
        await arriving
        await ended(live)
        watching.cancel()
        check_items(jobs)
        found["refused"] = live.refused
        longest_ms = live.dispatch_ms()[-1]
        assert longest_ms <= CANCEL_GRACE_SECONDS * 1000, "it gave way within the grace"
        at_peak = [
            batch
            for at, _, batch in usage.samples
            if began + peak_from + 10 <= at <= began + peak_until
        ]
        assert max(at_peak) == 0, max(at_peak)

    async def alone(world: World) -> None:
        await fleet(world)
        live = Live(world, load, seconds)
        await live.arrive()
        await ended(live)
        found["refused alone"] = live.refused

    play(story, seed=SEED)
    play(alone, seed=SEED)
    refused, alone_refused = found["refused"], found["refused alone"]
    assert refused <= 1.02 * alone_refused, (refused, alone_refused)
