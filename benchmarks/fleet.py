"""What nodes cost: registration, heartbeats, allocation, and the event loop under 100,000 of them.

Everything runs in one process, over links that only count what is sent, so that the figures are
the scheduler's own.
"""

from __future__ import annotations

import asyncio
import gc
import time
from random import Random

from rich.table import Table

from dragoman.auth import OpenAuthenticator
from dragoman.clock import SystemClock
from dragoman.ids import ConnectionId, InstanceId, NodeId, RequestId, TenantId
from dragoman.live.dispatch import JobOrder
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.fleet import Applicant, RegisteredNode
from dragoman.live.gateway import Connections, LivePlane, rules
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import (
    Device,
    Hardware,
    Languages,
    NodeHeartbeat,
    NodeRegister,
    Pipeline,
    ResourceUsage,
    SchedulerToNode,
    Service,
    ServiceStatus,
    ServiceType,
)
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import load_settings

SEED = 7
TENANT = TenantId("bench")
LANGUAGES = ("zh", "en", "es", "fr")
HEARTBEAT_SECONDS = 15
LAG_SECONDS = 10
JOBS = 5_000
SLOTS = 4

HEARTBEAT = NodeHeartbeat(ResourceUsage(20.0, 30.0), ())
SERVICES = tuple(
    Service(kind.value, kind, Device.CPU, ServiceStatus.RUNNING)
    for kind in (ServiceType.ASR, ServiceType.NMT, ServiceType.TTS)
)


class CountingLink:
    """A node's connection that takes everything and says nothing."""

    def __init__(self, number: int) -> None:
        self.id = ConnectionId(f"c{number}")
        self.sent = 0

    def send(self, message: SchedulerToNode) -> bool:
        self.sent += 1
        return True

    def superseded(self) -> None:
        """No node supersedes another here."""

    def timed_out(self) -> None:
        """No node falls silent here."""


def make_plane() -> LivePlane:
    clock = SystemClock()
    settings = load_settings(environ={}).settings
    instance_id = InstanceId("i-bench")
    return LivePlane(
        settings=settings,
        ledger=MemoryLedger(rules.ledger_terms(settings), instance_id, clock, Random(SEED)),
        authenticator=OpenAuthenticator(),
        connections=Connections(),
        metrics=Metrics(),
        instance_id=instance_id,
        clock=clock,
        randomness=Randomness(SEED),
    )


def registration(number: int) -> NodeRegister:
    spoken = (LANGUAGES[number % 4], LANGUAGES[(number + 1) % 4])
    return NodeRegister(
        version="1",
        schema_version="2.0",
        platform="bench",
        hardware=Hardware(4, 8.0),
        services=SERVICES,
        languages=Languages(spoken, (), LANGUAGES, spoken),
        node_id=NodeId(f"n{number}"),
        max_concurrent_jobs=SLOTS,
    )


async def register_all(plane: LivePlane, count: int) -> tuple[list[RegisteredNode], float]:
    """The nodes, and CPU microseconds for one registration."""
    applicant = Applicant(TENANT, None)
    nodes = []
    started = time.process_time()
    for number in range(count):
        node, _ = await plane.registry.register(
            registration(number), applicant, CountingLink(number)
        )
        nodes.append(node)
    return nodes, (time.process_time() - started) / count * 1e6


async def beat_all(plane: LivePlane, nodes: list[RegisteredNode]) -> float:
    """CPU microseconds for one heartbeat that changes nothing."""
    started = time.process_time()
    for node in nodes:
        await plane.registry.beat(node, HEARTBEAT)
    return (time.process_time() - started) / len(nodes) * 1e6


async def allocate(plane: LivePlane, count: int) -> float:
    """CPU microseconds from an order to a told node."""
    orders = [
        JobOrder(
            JobSpec(
                TENANT,
                RequestId(f"r{number}"),
                LANGUAGES[number % 4],
                LANGUAGES[(number + 1) % 4],
                Pipeline(use_nmt=True, use_tts=True),
            ),
            JobInput(text="a short sentence"),
        )
        for number in range(count)
    ]
    started = time.process_time()
    for order in orders:
        await plane.dispatcher.submit(order)
    return (time.process_time() - started) / count * 1e6


async def lag_under_heartbeats(
    plane: LivePlane, nodes: list[RegisteredNode], seconds: float
) -> list[float]:
    """How late a timer wakes, in milliseconds, while every node beats once per interval."""
    lags: list[float] = []
    done = asyncio.Event()

    async def measure() -> None:
        while not done.is_set():
            due = time.perf_counter() + 0.01
            await asyncio.sleep(0.01)
            lags.append((time.perf_counter() - due) * 1000)

    async def beat() -> None:
        per_turn = max(1, int(len(nodes) / HEARTBEAT_SECONDS / 200))
        position = 0
        while not done.is_set():
            turn_ends = time.perf_counter() + 1 / 200
            for _ in range(per_turn):
                await plane.registry.beat(nodes[position % len(nodes)], HEARTBEAT)
                position += 1
            await asyncio.sleep(max(0.0, turn_ends - time.perf_counter()))

    tasks = [asyncio.create_task(measure()), asyncio.create_task(beat())]
    await asyncio.sleep(seconds)
    done.set()
    await asyncio.gather(*tasks)
    return sorted(lags)


async def measure(count: int, lag_seconds: float) -> list[str]:
    plane = make_plane()
    await plane.start()
    try:
        nodes, register_us = await register_all(plane, count)
        await beat_all(plane, nodes)
        gc.collect()
        gc.freeze()
        beat_us = await beat_all(plane, nodes)
        lags = await lag_under_heartbeats(plane, nodes, lag_seconds)
        allocate_us = await allocate(plane, min(JOBS, count * SLOTS // 2))
        return [
            f"{count:,}",
            f"{register_us:.0f}",
            f"{beat_us:.1f}",
            f"{allocate_us:.1f}",
            f"{lags[len(lags) // 2]:.2f}",
            f"{lags[int(len(lags) * 0.99)]:.2f}",
        ]
    finally:
        await plane.stop()
        gc.unfreeze()


def run(quick: bool) -> list[Table]:
    """One table: what each size of fleet costs."""
    table = Table(title="What nodes cost (memory ledger, CPU of the scheduler)")
    for heading in (
        "nodes",
        "register us",
        "heartbeat us",
        "order to node us",
        "lag p50 ms",
        "lag p99 ms",
    ):
        table.add_column(heading, justify="right")
    sizes = (100, 10_000) if quick else (100, 1_000, 10_000, 100_000)
    for count in sizes:
        table.add_row(*asyncio.run(measure(count, 2 if quick else LAG_SECONDS)))
    return [table]
