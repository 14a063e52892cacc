"""A live plane whose nodes answer at once, and how long its jobs take to reach them."""

from __future__ import annotations

import asyncio
from time import monotonic, process_time

from benchmarks.fleet import (
    HEARTBEAT,
    LANGUAGES,
    TENANT,
    CountingLink,
    make_plane,
    registration,
)
from benchmarks.sight.cpu_time import arrivals
from dragoman.ids import RequestId
from dragoman.live.dispatch import JobOrder
from dragoman.live.dispatch.node_messages import NodeMessages
from dragoman.live.fleet import Applicant, RegisteredNode
from dragoman.live.gateway import LivePlane
from dragoman.live.ledger import JobInput, JobSpec
from dragoman.live.protocol import JobAssign, JobResult, Pipeline, SchedulerToNode

JOBS_PER_SECOND = 800
NODES = 40


class AnsweringLink(CountingLink):
    """A node's connection behind which every job is done at once."""

    def __init__(self, number: int, plane: LivePlane) -> None:
        super().__init__(number)
        self.node: RegisteredNode | None = None
        self._plane = plane

    def send(self, message: SchedulerToNode) -> bool:
        if isinstance(message, JobAssign) and self.node is not None:
            result = JobResult(message.job_id, message.attempt_id, success=True, text_translated="")
            asyncio.get_running_loop().call_soon(self._answer, self.node, result)
        return super().send(message)

    def _answer(self, node: RegisteredNode, result: JobResult) -> None:
        events = self._plane.dispatcher.events
        assert isinstance(events, NodeMessages), "one process keeps its ledger in memory"
        events.finished(node, result, monotonic())


async def busy_plane() -> LivePlane:
    """A plane that runs, with nodes; the caller stops it."""
    plane = make_plane()
    await plane.start()
    for number in range(NODES):
        link = AnsweringLink(number, plane)
        link.node, _ = await plane.registry.register(
            registration(number), Applicant(TENANT, None), link
        )
    return plane


async def beat_all(plane: LivePlane) -> None:
    """A heartbeat of every node, before the sweep takes a node for lost."""
    for node in list(plane.registry.nodes()):
        await plane.registry.beat(node, HEARTBEAT)


async def latencies_ms(plane: LivePlane, seconds: float) -> list[float]:
    """From the moment a job comes to the moment its node is told, for each job, in CPU time."""
    found: list[float] = []
    async for came_at in arrivals(JOBS_PER_SECOND, seconds):
        number = len(found)
        source, target = LANGUAGES[number % 4], LANGUAGES[(number + 1) % 4]
        spec = JobSpec(
            TENANT,
            RequestId(f"{came_at}/{number}"),
            source,
            target,
            Pipeline(use_nmt=True, use_tts=True),
        )
        await plane.dispatcher.submit(JobOrder(spec, JobInput(text="a short sentence")))
        found.append((process_time() - came_at) * 1000)
    return found
