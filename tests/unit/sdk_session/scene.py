"""A whole live plane with nodes that echo, and clients that talk to it, on the virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Unpack

from tests.simulation.world import settings_with

from dragoman.auth import OpenAuthenticator
from dragoman.ids import InstanceId
from dragoman.live.dispatch.memory_ledger import MemoryLedger
from dragoman.live.gateway import (
    CloseCode,
    Connections,
    Delay,
    DuplexLink,
    LivePlane,
    MemoryClient,
    MemoryNetwork,
    instant,
    rules,
)
from dragoman.live.protocol import Hardware, Message, NodeHealth, ResourceUsage, SchedulerToClient
from dragoman.observability import Metrics
from dragoman.randomness import Randomness, Secrets
from dragoman.sdk import (
    Answer,
    Job,
    Node,
    SessionClient,
    SessionEvent,
    SessionOptions,
    Unreachable,
)
from dragoman.testing import (
    MemoryConnect,
    MemoryLink,
    MemorySessionConnect,
    VirtualClock,
    run_virtual,
)

LANGUAGES = ("en", "es", "fr")
LONG_SECONDS = 5_000.0
"""Virtual seconds after which a script that has not ended never will."""


class Scene:
    """One instance with a few nodes, and a network of their own for its clients."""

    def __init__(self, seed: int, *, delay: Delay = instant, **overrides: Any) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.settings = settings_with(**overrides)
        self.work_seconds: Callable[[Random], float] = lambda _: 0.5
        self.jobs: list[Job] = []
        self.events: list[SessionEvent] = []
        self.sent: list[Message] = []
        """Everything that clients have sent."""
        self.reachable = True
        self.clients = MemoryNetwork(Random(seed + 1), delay=delay)
        self._node_network = MemoryNetwork(Random(seed + 2))
        self._nodes: list[asyncio.Task[None]] = []
        self.connections = Connections()
        self.plane = self._new_plane()

    async def start(self, slots: int = 8) -> None:
        """Have the plane run, with two nodes that are ready."""
        await self.plane.start()
        nodes = [self._node(f"n-{number}", slots) for number in range(2)]
        self._nodes = [asyncio.create_task(node.serve()) for node in nodes]
        await asyncio.sleep(1.0)
        assert all(node.status is NodeHealth.READY for node in nodes)

    async def replace_plane(self) -> None:
        """The server stops with a goodbye and another one takes its place; no session is kept."""
        self.reachable = False
        self.connections.close_all(CloseCode.DRAINING, "the server is draining")
        await self._stop_plane()
        self.connections = Connections()
        self.plane = self._new_plane()
        await self.start()
        self.reachable = True

    def client(self, **options: Unpack[SessionOptions]) -> SessionClient:
        """A client that speaks English and wants Spanish, unless said otherwise."""
        if "lang_a" not in options:
            options.setdefault("src_lang", "en")
            if "tgt_langs" not in options:
                options.setdefault("tgt_lang", "es")
        options.setdefault("clock", self.clock)
        options.setdefault("random", Random(self.seed + 3))
        options.setdefault("on_event", self.events.append)
        return SessionClient(self._connect, **options)

    @property
    def link(self) -> DuplexLink:
        """The client's connection."""
        return self.clients.links[-1]

    async def end(self) -> None:
        await self.clients.close()
        await self._stop_plane()
        await self._node_network.close()

    async def _connect(self) -> MemoryLink[SchedulerToClient]:
        if not self.reachable:
            raise Unreachable("the network is down")
        connect = MemorySessionConnect(self.clients, self.plane.session_endpoint)
        return _Overheard((await connect()).client, self.sent)

    async def _stop_plane(self) -> None:
        for node in self._nodes:
            node.cancel()
        await asyncio.gather(*self._nodes, return_exceptions=True)
        await self.plane.stop()

    def _new_plane(self) -> LivePlane:
        return LivePlane(
            settings=self.settings,
            ledger=MemoryLedger(
                rules.ledger_terms(self.settings),
                InstanceId("here"),
                self.clock,
                Random(self.random.random()),
            ),
            authenticator=OpenAuthenticator(),
            connections=self.connections,
            metrics=Metrics(),
            instance_id=InstanceId("here"),
            clock=self.clock,
            randomness=Randomness(self.random.getrandbits(32)),
            secrets=Secrets(Random(f"{self.seed}/secrets")),
        )

    def _node(self, node_id: str, slots: int) -> Node:
        return Node(
            MemoryConnect(self._node_network, self.plane.node_endpoint),
            work=self._echo,
            asr=LANGUAGES,
            nmt=LANGUAGES,
            tts=LANGUAGES,
            slots=slots,
            node_id=node_id,
            usage=lambda: ResourceUsage(cpu_percent=1.0, mem_percent=1.0),
            hardware=Hardware(cpu_cores=2, memory_gb=4.0),
            clock=self.clock,
            random=Random(f"{self.seed}/{node_id}"),
        )

    async def _echo(self, job: Job) -> Answer:
        """Translate text into capitals, and say audio again as it was."""
        self.jobs.append(job)
        await asyncio.sleep(self.work_seconds(self.random))
        job.partial("heard", is_final=True)
        return Answer(text_translated=(job.text or "").upper(), tts_audio=job.audio)


class _Overheard(MemoryLink[SchedulerToClient]):
    """A link that notes what is sent over it."""

    def __init__(self, client: MemoryClient[SchedulerToClient], sent: list[Message]) -> None:
        super().__init__(client)
        self._sent = sent

    def send_now(self, message: Message) -> bool:
        is_sent = super().send_now(message)
        if is_sent:
            self._sent.append(message)
        return is_sent

    async def send(self, message: Message) -> None:
        self._sent.append(message)
        await super().send(message)


def play(script: Callable[[Scene], Awaitable[None]], *, seed: int = 0, **options: Any) -> Scene:
    """Play a script to its end, see that nothing is left running, and return the scene."""

    async def main() -> Scene:
        scene = Scene(seed, **options)
        await scene.start()
        try:
            async with asyncio.timeout(LONG_SECONDS):
                await script(scene)
        finally:
            await scene.end()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return scene

    return run_virtual(main, seed=seed)
