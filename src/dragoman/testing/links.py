"""Links through the network in memory: what nodes and clients get in place of a URL."""

from __future__ import annotations

from functools import partial
from typing import Any, Generic, TypeVar

from dragoman.auth import ApiKey
from dragoman.live.gateway import ConnectionClosed, Delay, Endpoint, MemoryClient, MemoryNetwork
from dragoman.live.protocol import (
    TO_CLIENT,
    TO_NODE,
    Decoder,
    Message,
    SchedulerToClient,
    SchedulerToNode,
    SubProtocol,
    encode,
)
from dragoman.sdk import LinkClosed, check_frame

M = TypeVar("M", bound=Message)


class MemoryEndpointConnect(Generic[M]):
    """Connects to an endpoint through a network in memory."""

    def __init__(
        self,
        network: MemoryNetwork,
        endpoint: Endpoint[Any],
        decoder: Decoder[M],
        *,
        key: ApiKey | None = None,
        sub: SubProtocol = SubProtocol.MSGPACK,
        delay: Delay | None = None,
    ) -> None:
        self._network = network
        self._endpoint = endpoint
        self._decoder = decoder
        self._key = key
        self._sub = sub
        self._delay = delay

    async def __call__(self) -> MemoryLink[M]:
        client = await self._network.connect(
            self._endpoint,
            self._decoder,
            offered=[self._sub.value],
            key=self._key,
            delay=self._delay,
        )
        return MemoryLink(client)


class MemoryLink(Generic[M]):
    """A link in memory; its `client` is where faults are made."""

    def __init__(self, client: MemoryClient[M]) -> None:
        self.client = client
        self._max_frame_bytes: int | None = None

    def limit(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes

    def send_now(self, message: Message) -> bool:
        frame = encode(message, self.client.sub)
        check_frame(frame, self._max_frame_bytes)
        link = self.client.link
        if not link.to_server.has_room or link.to_client.ended is not None:
            return False
        link.to_server.put(frame)
        return True

    async def send(self, message: Message) -> None:
        frame = encode(message, self.client.sub)
        check_frame(frame, self._max_frame_bytes)
        try:
            await self.client.send_frame(frame)
        except ConnectionClosed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def receive(self) -> M:
        try:
            return await self.client.receive()
        except ConnectionClosed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def close(self) -> None:
        await self.client.close()


MemoryConnect = partial(MemoryEndpointConnect[SchedulerToNode], decoder=TO_NODE)
"""Connects a node to an endpoint through a network in memory."""

MemorySessionConnect = partial(MemoryEndpointConnect[SchedulerToClient], decoder=TO_CLIENT)
"""Connects a client to an endpoint through a network in memory."""
