"""Where nodes and clients of the SDK connect: what a scheduler and a cluster in memory share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypedDict, Unpack

from dragoman.clock import Clock, SystemClock
from dragoman.live.protocol import Hardware, NodeHealth, ResourceUsage
from dragoman.sdk import (
    Event,
    Node,
    NodeConnect,
    Service,
    SessionClient,
    SessionConnect,
    SessionOptions,
    WorkFunction,
)
from dragoman.testing.jobs import LONG_SECONDS
from dragoman.testing.virtual import VirtualClock, VirtualLoop

_IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)
_SMALL = Hardware(cpu_cores=4, memory_gb=8.0)


class NodeOptions(TypedDict, total=False):
    """What a node may be given besides its function; see `Node`."""

    services: Mapping[str, WorkFunction]
    asr: Sequence[str]
    semantic: Sequence[str]
    nmt: Sequence[str]
    tts: Sequence[str]
    slots: int
    features: Sequence[str]
    models: Sequence[Service]
    accept_public_jobs: bool
    node_id: str
    drain_seconds: float
    on_event: Callable[[Event], None]
    usage: Callable[[], ResourceUsage]


class MemorySite(ABC):
    """A place on one event loop that nodes and clients reach without sockets.

    All chance follows from `seed`, which is the virtual loop's unless it is given, and time from
    `clock`, which is the loop's too.
    """

    def __init__(self, seed: int | None, clock: Clock | None) -> None:
        loop = asyncio.get_running_loop()
        is_virtual = isinstance(loop, VirtualLoop)
        if seed is None:
            seed = loop.seed if isinstance(loop, VirtualLoop) else 0
        self.seed = seed
        self.clock = clock or (VirtualClock(loop) if is_virtual else SystemClock())
        self.random = Random(seed)
        self._serving: list[asyncio.Task[None]] = []
        self._sessions_made = 0

    @property
    @abstractmethod
    def connect_node(self) -> NodeConnect:
        """What a `Node` takes in place of a URL."""

    @property
    @abstractmethod
    def connect_session(self) -> SessionConnect:
        """What a `SessionClient` takes in place of a URL."""

    async def add_node(
        self, work: WorkFunction | None = None, **options: Unpack[NodeOptions]
    ) -> Node:
        """Start a node of the SDK with your functions, and wait until it is ready.

        Plain functions run on the event loop, in no virtual time.
        """
        number = len(self._serving)
        given: Any = {"slots": 4, "usage": lambda: _IDLE, "node_id": f"node-{number}", **options}
        node = Node(
            self.connect_node,
            work=work,
            threads=False,
            hardware=_SMALL,
            clock=self.clock,
            random=Random(f"{self.seed}/node/{number}"),
            **given,
        )
        serving = asyncio.get_running_loop().create_task(node.serve())
        self._serving.append(serving)
        await self.until(lambda: node.status is NodeHealth.READY or serving.done())
        if serving.done():
            await serving
        return node

    def session(self, **options: Unpack[SessionOptions]) -> SessionClient:
        """A client of this scheduler, to be opened with ``async with``."""
        self._sessions_made += 1
        options.setdefault("clock", self.clock)
        options.setdefault("random", Random(f"{self.seed}/session/{self._sessions_made}"))
        return SessionClient(self.connect_session, **options)

    async def until(
        self, condition: Callable[[], bool], seconds: float = LONG_SECONDS, *, every: float = 0.01
    ) -> None:
        """Wait for something to become true; TimeoutError when it does not."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  # a condition on many things has no event
                await asyncio.sleep(every)

    async def _stop_serving(self) -> None:
        """End the nodes of the SDK that were added here."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
