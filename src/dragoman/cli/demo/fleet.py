"""A fleet that needs no models: simulated nodes of several languages and speeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from dragoman.engines import SimulatedEngine
from dragoman.live.protocol import NodeHealth, ResourceUsage
from dragoman.randomness import Randomness
from dragoman.sdk import Event, Node

LANGUAGES = (
    ("en", "es", "zh"),
    ("en", "zh"),
    ("en", "es"),
    ("en", "fr", "de"),
    ("en", "zh", "ja"),
    ("es", "fr", "en"),
)
"""The nodes' languages, in turn; the first entry alone serves the examples the demo prints."""

LANGUAGES_BESIDE_REAL_NODES = (
    ("en", "fr", "zh"),
    ("en", "zh"),
    ("es", "fr"),
    ("en", "fr", "de"),
    ("en", "zh", "ja"),
    ("es", "fr", "zh"),
)
"""No simulated node has both English and Spanish, so that only real ones serve that pair."""

_PROFILES = ("steady", "steady", "steady", "slow", "steady", "flaky")
_SLOTS = (4, 2, 3, 4, 2)
READY_SECONDS = 20.0
LEAVE_SECONDS = 3.0


@asynccontextmanager
async def running_fleet(
    url: str,
    count: int,
    randomness: Randomness,
    groups: Sequence[Sequence[str]] = LANGUAGES,
) -> AsyncIterator[list[Node]]:
    """Nodes that are ready for jobs inside the block, and finish theirs when it ends.

    Each has the languages of one of the groups, in turn.
    """
    ready = asyncio.Event()
    nodes: list[Node] = []

    def noticed(event: Event) -> None:
        if all(node.status is NodeHealth.READY for node in nodes):
            ready.set()

    for number in range(count):
        engine = SimulatedEngine(
            randomness.stream(f"engine {number}").getrandbits(32),
            _PROFILES[number % len(_PROFILES)],
        )
        languages = groups[number % len(groups)]
        nodes.append(
            Node(
                url,
                work=engine.work,
                asr=languages,
                nmt=languages,
                tts=languages,
                slots=_SLOTS[number % len(_SLOTS)],
                node_id=f"demo-{number + 1:02d}",
                drain_seconds=LEAVE_SECONDS,
                on_event=noticed,
                # All nodes share this machine, so its real load says nothing about one of them.
                usage=lambda: ResourceUsage(cpu_percent=20.0, mem_percent=30.0),
                random=randomness.stream(f"node {number}"),
            )
        )
    async with in_service(nodes, ready):
        yield nodes


@asynccontextmanager
async def in_service(nodes: Sequence[Node], ready: asyncio.Event) -> AsyncIterator[None]:
    """Let nodes serve from when they are ready; at the end they finish what they have begun."""
    serving = [asyncio.create_task(node.serve()) for node in nodes]
    try:
        if nodes:
            with suppress(TimeoutError):
                async with asyncio.timeout(READY_SECONDS):
                    await ready.wait()
        yield
        for node in nodes:
            node.leave("the demo is over")
        if serving:
            await asyncio.wait(serving, timeout=LEAVE_SECONDS)
    finally:
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
