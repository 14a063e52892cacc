"""Several real servers over one Redis, and programs that reach whichever of them answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.serve.server_process import ServerProcess, environment
from tests.servers import RedisProcess

from dragoman.live.protocol import NodeHealth, ResourceUsage
from dragoman.sdk import (
    Answer,
    Job,
    Node,
    NodeLink,
    SessionClient,
    SessionLink,
    Unreachable,
    WebSocketConnect,
    WebSocketSessionConnect,
)

WORK_SECONDS = 0.2


class Instances:
    """Servers of one cluster, started and ended one by one."""

    def __init__(self, redis: RedisProcess, folder: Path) -> None:
        self._folder = folder
        self._started = 0
        self.running: list[ServerProcess] = []
        """Those that run, the one to be asked first in front."""
        self._environment = environment(
            DRAGOMAN_LAB__ENABLED="false",
            DRAGOMAN_CLUSTER__ENABLED="true",
            DRAGOMAN_CLUSTER__REDIS_URL=redis.url,
            DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS="2500",
            DRAGOMAN_CLUSTER__PRESENCE_TTL_SECONDS="3",
            DRAGOMAN_CLUSTER__OWNER_TTL_SECONDS="5",
            DRAGOMAN_CLUSTER__RECONCILE_SECONDS="1",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__HEARTBEAT_INTERVAL_SECONDS="2",
            DRAGOMAN_SCHEDULER__NODE_HEALTH__HEARTBEAT_TIMEOUT_SECONDS="6",
        )

    async def start(self, count: int = 1) -> list[ServerProcess]:
        """More servers, to be asked last."""
        folders = [self._folder / f"instance-{self._started + number}" for number in range(count)]
        self._started += count
        servers = await asyncio.gather(
            *(asyncio.to_thread(ServerProcess, folder, env=self._environment) for folder in folders)
        )
        self.running += servers
        return servers

    async def kill(self, server: ServerProcess) -> None:
        """End it at once, as a power cut would."""
        self.running.remove(server)
        await asyncio.to_thread(server.end)

    async def stop(self, server: ServerProcess) -> None:
        """Have it drain and end; from now on it is not asked any more."""
        self.running.remove(server)
        server.signal()
        assert await asyncio.to_thread(server.wait) == 0, server.log
        server.end()

    def end(self) -> None:
        for server in self.running:
            server.end()

    async def connect_session(self) -> SessionLink:
        return await _first_answer(WebSocketSessionConnect(at.url) for at in self.running)

    async def connect_node(self) -> NodeLink:
        """Nodes ask the other way round, so that most jobs cross from one server to another."""
        return await _first_answer(WebSocketConnect(at.url) for at in self.running[::-1])

    @asynccontextmanager
    async def node(self) -> AsyncIterator[Node]:
        """A node that is ready, and connects anew when its server ends."""
        languages = ["en", "es"]
        node = Node(
            self.connect_node,
            asr=languages,
            nmt=languages,
            tts=languages,
            work=_work,
            slots=8,
            # The machine that runs the tests may be busy; that is not what they are about.
            usage=lambda: ResourceUsage(cpu_percent=1.0, mem_percent=1.0),
        )
        serving = asyncio.create_task(node.serve())
        try:
            async with asyncio.timeout(20):
                while node.status is not NodeHealth.READY:  # noqa: ASYNC110  # told by no event
                    await asyncio.sleep(0.01)
            yield node
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def session(self, **options: Any) -> SessionClient:
        return SessionClient(self.connect_session, src_lang="en", tgt_lang="es", **options)


async def _work(job: Job) -> Answer:
    await asyncio.sleep(WORK_SECONDS)
    return Answer(text_translated=f"[{job.text}]")


L = TypeVar("L")


async def _first_answer(connectors: Iterable[Callable[[], Awaitable[L]]]) -> L:
    reason = "no server runs"
    for connect in connectors:
        try:
            return await connect()
        except Unreachable as error:
            reason = str(error)
    raise Unreachable(reason)
