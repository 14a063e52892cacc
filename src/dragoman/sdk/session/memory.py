"""Session links through the in-memory network, so that clients run on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.live.protocol import TO_CLIENT, Message, SchedulerToClient, SubProtocol
from dragoman.sdk.node.link import LinkClosed

if TYPE_CHECKING:
    # A client in earnest does without the gateway, and without the server it brings along.
    from dragoman.auth import ApiKey
    from dragoman.live.gateway import Delay, Endpoint, MemoryClient, MemoryNetwork


class MemorySessionConnect:
    """Connects to an endpoint for clients through a network in memory."""

    def __init__(
        self,
        network: MemoryNetwork,
        endpoint: Endpoint[Any],
        *,
        key: ApiKey | None = None,
        sub: SubProtocol = SubProtocol.MSGPACK,
        delay: Delay | None = None,
    ) -> None:
        self._network = network
        self._endpoint = endpoint
        self._key = key
        self._sub = sub
        self._delay = delay

    async def __call__(self) -> MemorySessionLink:
        client = await self._network.connect(
            self._endpoint, TO_CLIENT, offered=[self._sub.value], key=self._key, delay=self._delay
        )
        return MemorySessionLink(client)


class MemorySessionLink:
    """A session link in memory; its `client` is where faults are made."""

    def __init__(self, client: MemoryClient[SchedulerToClient]) -> None:
        # Whoever has a client has the gateway already.
        from dragoman.live.gateway import ConnectionClosed

        self.client = client
        self._closed = ConnectionClosed

    async def send(self, message: Message) -> None:
        try:
            await self.client.send(message)
        except self._closed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def receive(self) -> SchedulerToClient:
        try:
            return await self.client.receive()
        except self._closed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def close(self) -> None:
        await self.client.close()
