"""A server and a network on the virtual loop, for scripts that play on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.unit.gateway.scripted import LIMITS, ScriptedHandler, TestKeys, scripted_endpoint

from dragoman.live.gateway import (
    Caller,
    ConnectionClosed,
    ConnectionLimits,
    Delay,
    MemoryClient,
    MemoryNetwork,
    instant,
)
from dragoman.live.protocol import (
    TO_CLIENT,
    ClientHeartbeat,
    Error,
    SchedulerToClient,
    ServerHeartbeat,
    Utterance,
)
from dragoman.testing import VirtualClock, run_virtual

Client = MemoryClient[SchedulerToClient]


class Scene:
    """What a script finds: an endpoint, a network, and the transcript of what the server saw."""

    def __init__(
        self,
        seed: int,
        *,
        limits: ConnectionLimits = LIMITS,
        delay: Delay = instant,
        codec: bool = True,
        keys: TestKeys | None = None,
        handler: Callable[[Caller], ScriptedHandler] | None = None,
    ) -> None:
        self.transcript: list[str] = []
        self.keys = keys or TestKeys()
        self.endpoint = scripted_endpoint(
            self.transcript,
            VirtualClock(asyncio.get_running_loop()),
            limits=limits,
            keys=self.keys,
            handler=handler,
        )
        self.network = MemoryNetwork(Random(seed), delay=delay, codec=codec)

    async def dial(self, **options: Any) -> Client:
        return await self.network.connect(self.endpoint, TO_CLIENT, **options)


def play(script: Callable[[Scene], Awaitable[None]], *, seed: int = 0, **options: Any) -> list[str]:
    """Play a script to its end, see that nothing is left open, and return the transcript."""

    async def main() -> list[str]:
        scene = Scene(seed, **options)
        await script(scene)
        await asyncio.sleep(60)  # what is under way arrives
        await scene.network.close()
        assert len(scene.endpoint.connections) == 0
        assert scene.endpoint.connections.counts == {}
        assert scene.keys.on_revoked == {}
        return scene.transcript

    return run_virtual(main, seed=seed)


def now() -> float:
    return asyncio.get_running_loop().time()


def heartbeat(seq: int) -> ClientHeartbeat:
    return ClientHeartbeat(last_delivery_seq=seq)


def order(text: str) -> Utterance:
    """An utterance that tells the handler what to do."""
    return Utterance(utterance_index=0, text=text)


async def answers(client: Client) -> list[str]:
    """All that the client receives until it is closed, the close code last."""
    heard: list[str] = []
    while True:
        try:
            message = await client.receive()
        except ConnectionClosed as closed:
            return [*heard, f"closed {closed.code}"]
        match message:
            case ServerHeartbeat(next_chunk_seq=seq):
                heard.append(f"heartbeat {seq}")
            case Error(code=code):
                heard.append(f"error {code}")
