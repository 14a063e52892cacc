"""The real endpoints, with a whole live plane behind them, under random and mutated frames."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest
from tests.fuzz_frames import frames
from tests.fuzz_growth import Growth, Held, held_here
from tests.integration.gateway.sockets import SocketClient, dialled, run, serving

from dragoman.auth import OpenAuthenticator
from dragoman.clock import SystemClock
from dragoman.ids import InstanceId, NodeId
from dragoman.live.dispatch import MemoryLedger
from dragoman.live.gateway import (
    ConnectionClosed,
    Connections,
    Endpoint,
    Frame,
    LivePlane,
    MemoryNetwork,
    rules,
)
from dragoman.live.protocol import (
    TO_CLIENT,
    TO_NODE,
    Device,
    Error,
    Hardware,
    Languages,
    Message,
    NodeRegister,
    Service,
    ServiceStatus,
    ServiceType,
    SessionInit,
    SubProtocol,
)
from dragoman.live.sessions import Session
from dragoman.observability import Metrics
from dragoman.randomness import Randomness
from dragoman.settings import load_settings

FUZZ_FRAMES = int(os.environ.get("DRAGOMAN_FUZZ_FRAMES", "2000"))
FUZZ_SEED = int(os.environ.get("DRAGOMAN_FUZZ_SEED", "21"))
FRAMES_PER_CONNECTION = 100

MOST_GROWTH = Held(memory_bytes=40_000_000, descriptors=3, tasks=3)
"""How much more may be held than after the first tenth, once those who left are forgotten: what the
allocator holds back, and less than a descriptor or a task for each connection."""

REGISTER = NodeRegister(
    version="1",
    schema_version="2.0",
    platform="test",
    hardware=Hardware(2, 4.0),
    services=(Service("nmt", ServiceType.NMT, Device.CPU, ServiceStatus.RUNNING),),
    languages=Languages(("en",), (), ("en", "es"), ("es",)),
)
INIT = SessionInit(src_lang="en", tgt_lang="es")


def make_plane(seed: int) -> LivePlane:
    clock = SystemClock()
    limits = {"messages_per_second": 1_000_000, "node_messages_per_second": 1_000_000}
    queues = {"session_queue": 100_000, "node_queue": 100_000}
    # What an endpoint remembers of those who left is forgotten soon, so that a leak shows.
    scheduler = {
        "delivery": {"resume_grace_seconds": 0.5},
        "node_health": {"reconnect_grace_seconds": 0.5, "forget_offline_seconds": 1},
    }
    flags = {"limits": limits | queues, "scheduler": scheduler}
    settings = load_settings(environ={}, flags=flags).settings
    return LivePlane(
        settings=settings,
        ledger=MemoryLedger(
            rules.ledger_terms(settings), InstanceId("i-fuzz"), clock, Random(seed)
        ),
        authenticator=OpenAuthenticator(),
        connections=Connections(),
        metrics=Metrics(),
        instance_id=InstanceId("i-fuzz"),
        clock=clock,
        randomness=Randomness(seed),
    )


async def forgotten(plane: LivePlane) -> None:
    """Nothing is left of the connections that were: no socket, no session, no node."""
    for endpoint in (plane.node_endpoint, plane.session_endpoint):
        await endpoint.connections.wait_empty()
    async with asyncio.timeout(60):
        while [*plane.sessions, *plane.registry.nodes()]:  # noqa: ASYNC110 - they tell nobody
            await asyncio.sleep(0.05)


@asynccontextmanager
async def by_memory(endpoint: Endpoint[Any], decoder: Any) -> AsyncIterator[Any]:
    network = MemoryNetwork(Random(FUZZ_SEED))

    @asynccontextmanager
    async def dial(sub: SubProtocol) -> AsyncIterator[Any]:
        client = await network.connect(endpoint, decoder, offered=[sub.value])
        yield client
        await client.close()

    yield dial
    await network.close()


class Decoding:
    """A socket client that reads what this endpoint sends."""

    def __init__(self, client: SocketClient, decoder: Any) -> None:
        self._client = client
        self._decoder = decoder
        self.send = client.send
        self.send_frame = client.send_frame
        self.close = client.close

    async def receive(self) -> Any:
        return self._decoder.decode(await self._client.receive_frame(), self._client.sub)


@asynccontextmanager
async def by_socket(endpoint: Endpoint[Any], decoder: Any) -> AsyncIterator[Any]:
    async with serving(endpoint) as url:

        @asynccontextmanager
        async def dial(sub: SubProtocol) -> AsyncIterator[Any]:
            async with dialled(url, [sub.value]) as client:
                yield Decoding(client, decoder)

        yield dial


TRANSPORTS = {"memory": by_memory, "socket": by_socket}
FIRST: dict[str, Message] = {"node": REGISTER, "session": INIT}


LAST = "the_last_frame"
"""No type of message: the endpoint's answer to it tells that everything before it was handled."""


def last_frame(sub: SubProtocol) -> Frame:
    if sub is SubProtocol.JSON:
        return msgspec.json.encode({"type": LAST}).decode()
    return msgspec.msgpack.encode({"type": LAST})


async def collect(client: Any, codes: Counter[str], answered: asyncio.Event) -> None:
    while True:
        try:
            message = await client.receive()
        except ConnectionClosed as closed:
            codes[f"closed {closed.code}"] += 1
            answered.set()
            return
        if isinstance(message, Error):
            codes[message.code] += 1
            if LAST in message.message:
                answered.set()


async def bombard(
    client: Any, sub: SubProtocol, first: Message, sent: Sequence[Frame], codes: Counter[str]
) -> None:
    answered = asyncio.Event()
    listening = asyncio.create_task(collect(client, codes, answered))
    try:
        await client.send(first)
        for frame in sent:
            await client.send_frame(frame)
        await client.send_frame(last_frame(sub))
        await answered.wait()
        await client.close()
    except ConnectionClosed:
        pass
    await listening


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", FIRST)
def test_no_frame_brings_an_endpoint_anything_but_typed_errors(name: str, transport: str) -> None:
    async def main() -> Counter[str]:
        plane = make_plane(FUZZ_SEED)
        endpoint: Endpoint[Any] = plane.node_endpoint if name == "node" else plane.session_endpoint
        codes: Counter[str] = Counter()
        batches: dict[SubProtocol, list[Frame]] = {sub: [] for sub in SubProtocol}
        await plane.start()
        decoder = TO_NODE if name == "node" else TO_CLIENT
        growth = Growth(held_here, FUZZ_FRAMES, MOST_GROWTH)
        async with TRANSPORTS[transport](endpoint, decoder) as dial:
            for number, (sub, frame) in enumerate(frames(FUZZ_SEED, FUZZ_FRAMES), 1):
                batches[sub].append(frame)
                if len(batches[sub]) == FRAMES_PER_CONNECTION:
                    async with dial(sub) as client:
                        await bombard(client, sub, FIRST[name], batches[sub], codes)
                    batches[sub] = []
                    if growth.is_due(number):
                        await forgotten(plane)
                        growth.done(number)
            await forgotten(plane)
            growth.check()
        for session in list(plane.sessions):
            assert isinstance(session, Session)
            session.abandon()
        await plane.stop()
        assert len(endpoint.connections) == 0
        assert all(not node.online for node in plane.registry.nodes()), "every socket is gone"
        assert NodeId("") not in [node.node_id for node in plane.registry.nodes()]
        return codes

    codes = run(main)
    assert "INTERNAL_ERROR" not in codes, f"seed {FUZZ_SEED}: {codes}"
    assert "closed 1011" not in codes, f"seed {FUZZ_SEED}: {codes}"
    assert codes["INVALID_MESSAGE"] > 0
