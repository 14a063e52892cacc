"""The process that plays nodes and clients: `python -m benchmarks.cluster.driver LOAD`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import uvloop

from benchmarks.cluster.load import (
    FullSpeed,
    Load,
    Outcome,
    Paced,
    Place,
    RoundTrips,
    Waits,
    Weighed,
    Weight,
)
from benchmarks.cluster.readings import Readings, read, used_bytes
from benchmarks.full_job.frames import DragomanFrames
from benchmarks.full_job.load import NODES, SESSIONS
from benchmarks.full_job.nodes import HoldingNode, Node, open_nodes
from benchmarks.full_job.sessions import QuietSession, Session, connect_sessions
from benchmarks.full_job.tally import Tally
from benchmarks.processes import cpu_seconds, waited_seconds

IDLE_SECONDS = 1.0
CATCH_UP_SECONDS = 0.1
"""A driver that was held up longer than this leaves out what it should have said meanwhile: said at
once, it would be another load."""
HEARD_SECONDS = 3.0
"""Until every instance has learned of the nodes of the others, and of sessions that went before."""


async def drive(load: Load, tally: Tally) -> list[Outcome] | Weighed | Waits:
    frames = DragomanFrames(binary=True, audio_bytes=0)
    match load:
        case FullSpeed():
            sessions = await connect(load.place, frames, tally, Session)
            return await measure(load, sessions, tally)
        case Paced():
            sessions = await connect(load.place, frames, tally, QuietSession)
            return await measure(load, sessions, tally)
        case Weight():
            return await weigh(load, frames, tally)
        case RoundTrips():
            return await wait_for_assignments(load, frames, tally)


async def connect(
    place: Place, frames: DragomanFrames, tally: Tally, kind: type[Session]
) -> list[Session]:
    """Nodes and clients, each at the instance whose turn it is."""
    sessions: list[Session] = []
    for turn, instance in enumerate(place.nodes_at):
        numbers = range(turn, NODES, len(place.nodes_at))
        await open_nodes(instance.port, frames, tally, numbers)
    for turn, instance in enumerate(place.sessions_at):
        numbers = range(turn, SESSIONS, len(place.sessions_at))
        sessions += await connect_sessions(instance.port, frames, tally, numbers, kind)
    await asyncio.sleep(HEARD_SECONDS)
    return sessions


async def measure(
    load: FullSpeed | Paced, sessions: Sequence[Session], tally: Tally
) -> list[Outcome]:
    """What was done and used in each of the rounds after the warm-up."""
    place = load.place
    began = time.monotonic()
    before = await _readings(place)
    await asyncio.sleep(IDLE_SECONDS)
    idle, idle_seconds = (await _readings(place)).since(before), time.monotonic() - began
    talking = asyncio.create_task(_talk(load, sessions))
    await asyncio.sleep(load.warm_up_seconds)
    outcomes = [await _round(load, tally, idle, idle_seconds) for _ in range(load.rounds)]
    talking.cancel()
    return outcomes


async def _round(
    load: FullSpeed | Paced, tally: Tally, idle: Readings, idle_seconds: float
) -> Outcome:
    place = load.place
    read_at, before = time.monotonic(), await _readings(place)
    # Reading takes the instances' time as well, so that the work is measured in between.
    jobs, started, cpu, waited = tally.jobs, time.monotonic(), _cpu(place), _waited(place)
    await asyncio.sleep(load.seconds)
    waited = _waited(place) - waited
    scheduler_cpu, redis_cpu = (now - then for now, then in zip(_cpu(place), cpu, strict=True))
    jobs, seconds = tally.jobs - jobs, time.monotonic() - started
    read_seconds = time.monotonic() - read_at
    during = (await _readings(place)).since(before)
    return Outcome(
        jobs,
        seconds,
        scheduler_cpu,
        redis_cpu,
        during.operations_a_job(idle, read_seconds / idle_seconds),
        during.p99_allocation_ms(),
        waited,
    )


async def _talk(load: FullSpeed | Paced, sessions: Sequence[Session]) -> None:
    if isinstance(load, FullSpeed):
        for session in sessions:
            session.speak()
        return
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        for session in sessions:
            session.speak()
            due = max(due + 1 / load.jobs_per_second, loop.time() - CATCH_UP_SECONDS)
            await asyncio.sleep(max(0.0, due - loop.time()))


async def weigh(load: Weight, frames: DragomanFrames, tally: Tally) -> Weighed:
    redis, instance = load.place.redis, load.place.instances[0]
    assert redis is not None
    (warm, *_) = await connect_sessions(instance.port, frames, tally, range(1), QuietSession)
    await open_nodes(instance.port, frames, tally, range(1), HoldingNode)
    warm.speak()
    await _until(lambda: tally.held == 1)
    empty = await asyncio.to_thread(used_bytes, redis)
    await asyncio.gather(
        *(
            open_nodes(
                instance.port, frames, tally, range(1 + turn, load.nodes + 1, 10), HoldingNode
            )
            for turn in range(10)
        )
    )
    with_nodes = await asyncio.to_thread(used_bytes, redis)
    numbers = range(1, SESSIONS + 1)
    sessions = await connect_sessions(instance.port, frames, tally, numbers, QuietSession)
    with_sessions = await asyncio.to_thread(used_bytes, redis)
    for number in range(load.jobs):
        sessions[number % SESSIONS].speak()
    await _until(lambda: tally.held == load.jobs + 1)
    with_jobs = await asyncio.to_thread(used_bytes, redis)
    return Weighed(with_nodes - empty, with_jobs - with_sessions)


class _TimedNode(Node):
    """A node that remembers when it was told to work."""

    assigned_at: ClassVar[list[float]] = []

    def _received(self, payload: bytes) -> None:
        if self._frames.read(payload).kind == "job_assign":
            self.assigned_at.append(time.monotonic())
        super()._received(payload)


async def wait_for_assignments(load: RoundTrips, frames: DragomanFrames, tally: Tally) -> Waits:
    await open_nodes(load.place.nodes_at[0].port, frames, tally, range(1), _TimedNode)
    port = load.place.sessions_at[0].port
    (session,) = await connect_sessions(port, frames, tally, range(1), QuietSession)
    await asyncio.sleep(HEARD_SECONDS)
    spoken_at = []
    # The first one introduces the scripts to Redis, and does not count.
    for said in range(1, load.utterances + 2):
        spoken_at.append(time.monotonic())
        session.speak()
        await _until(lambda said=said: tally.jobs == said)
    waits = zip(_TimedNode.assigned_at, spoken_at, strict=True)
    return Waits(tuple(assigned - spoken for assigned, spoken in waits)[1:])


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # frames come by callback
            await asyncio.sleep(0.01)


async def _readings(place: Place) -> Readings:
    return await asyncio.to_thread(read, place.instances)


def _cpu(place: Place) -> tuple[float, float]:
    redis = cpu_seconds(place.redis.pid) if place.redis is not None else 0.0
    return cpu_seconds(*(instance.pid for instance in place.instances)), redis


def _waited(place: Place) -> float:
    servers = (*place.instances, place.redis) if place.redis is not None else place.instances
    return waited_seconds(*(server.pid for server in servers))


async def main(load: Load) -> list[Outcome] | Weighed | Waits:
    tally = Tally()
    try:
        found = await drive(load, tally)
        problem = tally.problem()
    finally:
        tally.close()
    if problem is not None:
        sys.exit(f"a job or a socket failed: {problem}")
    return found


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(main(msgspec.json.decode(sys.argv[1], type=Load)))
    sys.stdout.buffer.write(msgspec.json.encode(outcome))
