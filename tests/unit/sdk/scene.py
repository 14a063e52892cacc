"""A node and a scheduler on the virtual loop, for scripts that play on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from tests.unit.sdk.scheduler import FakeScheduler

from dragoman.errors import DragomanError
from dragoman.live.gateway import Delay, DuplexLink, MemoryNetwork, instant
from dragoman.live.protocol import Hardware, ResourceUsage
from dragoman.sdk import Answer, Event, Job, Node
from dragoman.testing import MemoryConnect, VirtualClock, run_virtual

IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=2.0)
HARDWARE = Hardware(cpu_cores=2, memory_gb=4.0)


class Jobs:
    """A work function whose jobs end when the script says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self._ends: dict[str, asyncio.Event] = {}

    def finish(self, attempt: str) -> None:
        self._end_of(attempt).set()

    async def work(self, job: Job) -> Answer:
        self.started.append(job.attempt_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._end_of(job.attempt_id).wait()
            return Answer(text_translated=(job.text or "").upper())
        except asyncio.CancelledError:
            self.cancelled.append(job.attempt_id)
            raise
        finally:
            self.at_once -= 1

    def _end_of(self, attempt: str) -> asyncio.Event:
        return self._ends.setdefault(attempt, asyncio.Event())


class Scene:
    """What a script finds: a scheduler, a network, and a node that has been started."""

    def __init__(
        self,
        seed: int,
        *,
        delay: Delay = instant,
        keys_required: bool = False,
        max_frame_bytes: int = 0,
        **options: Any,
    ) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        self.scheduler = FakeScheduler(clock, keys_required=keys_required)
        self.scheduler.max_frame_bytes = max_frame_bytes
        self.network = MemoryNetwork(Random(seed), delay=delay)
        self.jobs = Jobs()
        self.events: list[Event] = []
        offered: dict[str, Any] = {
            "nmt": ["en", "es"],
            "slots": 2,
            "usage": lambda: IDLE,
            "hardware": HARDWARE,
            "clock": clock,
            "random": Random(seed),
            "on_event": self.events.append,
        }
        if "services" not in options:
            offered["work"] = self.jobs.work
        self.node = Node(MemoryConnect(self.network, self.scheduler.endpoint), **offered | options)
        self.serving = asyncio.create_task(self.node.serve())

    @property
    def link(self) -> DuplexLink:
        return self.network.links[-1]

    async def end(self) -> None:
        self.serving.cancel()
        with suppress(asyncio.CancelledError, DragomanError):
            await self.serving
        await self.network.close()


def play(script: Callable[[Scene], Awaitable[None]], *, seed: int = 0, **options: Any) -> Scene:
    """Play a script to its end, see that nothing is left running, and return the scene."""

    async def main() -> Scene:
        scene = Scene(seed, **options)
        try:
            await script(scene)
        finally:
            await scene.end()
        assert scene.jobs.at_once == 0
        return scene

    return run_virtual(main, seed=seed)


def now() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everything that is under way arrive, without the next heartbeat."""
    await asyncio.sleep(1.0)
