"""Whatever happens over memory happens over a socket in the same way."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Protocol, TypeAlias

import pytest
from tests.fuzz_frames import frames
from tests.fuzz_growth import Growth, Held, held_here
from tests.integration.gateway.sockets import dialled, run, serving
from tests.unit.gateway.scripted import LIMITS, scripted_endpoint

from dragoman.clock import SystemClock
from dragoman.live.gateway import ConnectionClosed, Endpoint, Frame, MemoryNetwork
from dragoman.live.protocol import (
    TO_CLIENT,
    ClientHeartbeat,
    ClientToScheduler,
    Error,
    Message,
    SchedulerToClient,
    ServerHeartbeat,
    SessionClose,
    SubProtocol,
    Utterance,
)


class AnyClient(Protocol):
    sub: SubProtocol

    async def send(self, message: Message) -> None: ...
    async def send_frame(self, frame: Frame) -> None: ...
    async def receive(self) -> SchedulerToClient: ...
    async def close(self, code: int = 1000, reason: str = "") -> None: ...


Dial: TypeAlias = Callable[[list[str]], AbstractAsyncContextManager[AnyClient]]


@asynccontextmanager
async def by_memory(endpoint: Endpoint[ClientToScheduler]) -> AsyncIterator[Dial]:
    network = MemoryNetwork(Random(1))

    @asynccontextmanager
    async def dial(offered: list[str]) -> AsyncIterator[AnyClient]:
        client = await network.connect(endpoint, TO_CLIENT, offered=offered)
        yield client
        await client.close()

    yield dial
    await endpoint.connections.wait_empty()
    await network.close()


@asynccontextmanager
async def by_socket(endpoint: Endpoint[ClientToScheduler]) -> AsyncIterator[Dial]:
    async with serving(endpoint) as url:

        @asynccontextmanager
        async def dial(offered: list[str]) -> AsyncIterator[AnyClient]:
            async with dialled(url, offered) as client:
                yield client

        yield dial
        await endpoint.connections.wait_empty()


TRANSPORTS = {"memory": by_memory, "socket": by_socket}


async def converse(client: AnyClient, diary: list[str]) -> None:
    """Talk to the scripted handler, step by step and also several messages at once."""

    async def listen(count: int) -> None:
        for _ in range(count):
            match await client.receive():
                case ServerHeartbeat(next_chunk_seq=seq):
                    diary.append(f"client: heartbeat {seq}")
                case Error(code=code):
                    diary.append(f"client: error {code}")

    for seq in range(3):
        await client.send(ClientHeartbeat(last_delivery_seq=seq))
        await listen(1)
        await asyncio.sleep(0.01)
    await client.send(Utterance(utterance_index=0, text="sleep 0.02"))
    await listen(1)
    diary.append("client: wakes up")
    for text in ("refuse", "fail"):
        await client.send(Utterance(utterance_index=1, text=text))
        await listen(1)
    await client.send_frame(b"\xff\xff" if client.sub.binary else "[]")
    await listen(1)
    await client.send(SessionClose(reason="done"))
    try:
        await listen(2)
    except ConnectionClosed as closed:
        diary.append(f"client: closed {closed.code} {closed.reason}")


def transcript_of(transport: str, sub: SubProtocol) -> list[str]:
    async def main() -> list[str]:
        diary: list[str] = []
        endpoint = scripted_endpoint(diary, SystemClock())
        async with TRANSPORTS[transport](endpoint) as dial, dial([sub.value]) as client:
            await converse(client, diary)
        return diary

    return run(main)


@pytest.mark.parametrize("sub", SubProtocol)
def test_one_script_gives_one_transcript_over_memory_and_over_a_socket(sub: SubProtocol) -> None:
    memory, socket = transcript_of("memory", sub), transcript_of("socket", sub)
    assert in_step(memory) == in_step(socket)
    assert memory[:3] == ["opened", "heartbeat 0", "client: heartbeat 0"]
    assert of_client(memory) == of_client(socket)
    assert of_client(memory)[-2:] == ["client: heartbeat 99", "client: closed 1000 done"]
    assert of_server(memory) == of_server(socket)
    assert of_server(memory)[-2:] == ["session close", "closed 1000"]


def in_step(diary: list[str]) -> list[str]:
    """The part in which each side waits for the other; the two ends may come in any order."""
    return diary[: diary.index("session close")]


def of_client(diary: list[str]) -> list[str]:
    return [line for line in diary if line.startswith("client: ")]


def of_server(diary: list[str]) -> list[str]:
    return [line for line in diary if not line.startswith("client: ")]


FUZZ_FRAMES = int(os.environ.get("DRAGOMAN_FUZZ_FRAMES", "2000"))
FUZZ_SEED = int(os.environ.get("DRAGOMAN_FUZZ_SEED", "20"))
FRAMES_PER_CONNECTION = 100
MOST_GROWTH = Held(memory_bytes=40_000_000, descriptors=3, tasks=3)
"""How much more may be held than after the first tenth: less than a task for each connection."""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_no_frame_brings_anything_but_typed_errors(transport: str) -> None:
    """The long run is `DRAGOMAN_FUZZ_FRAMES=1000000 pytest` with this file."""

    async def bombard(dial: Dial, sub: SubProtocol, sent: list[Frame], codes: Counter[str]) -> None:
        async with dial([sub.value]) as client:
            await client.send(ClientHeartbeat(last_delivery_seq=0))
            listening = asyncio.create_task(collect(client, codes))
            try:
                for frame in sent:
                    await client.send_frame(frame)
                await client.send(Utterance(utterance_index=0, text="close 1000"))
            except ConnectionClosed:
                pass
            await listening

    async def collect(client: AnyClient, codes: Counter[str]) -> None:
        while True:
            try:
                message = await client.receive()
            except ConnectionClosed as closed:
                codes[f"closed {closed.code}"] += 1
                return
            if isinstance(message, Error):
                codes[message.code] += 1

    async def main() -> Counter[str]:
        codes: Counter[str] = Counter()
        transcript: list[str] = []
        limits = replace(LIMITS, queue_messages=100_000, queue_bytes=2**30, messages_per_second=0)
        endpoint = scripted_endpoint(transcript, SystemClock(), limits=limits)
        batches: dict[SubProtocol, list[Frame]] = {sub: [] for sub in SubProtocol}
        connections = 0
        growth = Growth(held_here, FUZZ_FRAMES, MOST_GROWTH)
        async with TRANSPORTS[transport](endpoint) as dial:
            for number, (sub, frame) in enumerate(frames(FUZZ_SEED, FUZZ_FRAMES), 1):
                batches[sub].append(frame)
                if len(batches[sub]) == FRAMES_PER_CONNECTION:
                    await bombard(dial, sub, batches[sub], codes)
                    connections += 1
                    batches[sub] = []
                    transcript[:] = [line for line in transcript if line.startswith("closed")]
                    if growth.is_due(number):
                        await endpoint.connections.wait_empty()
                        growth.done(number)
            await endpoint.connections.wait_empty()
            growth.check()
        assert len(endpoint.connections) == 0
        assert sum(line.startswith("closed") for line in transcript) == connections
        assert connections > 0
        return codes

    codes = run(main)
    assert set(codes) <= {"INVALID_MESSAGE", "closed 1000", "closed 4400"}, FUZZ_SEED
    assert codes["INVALID_MESSAGE"] > 0
