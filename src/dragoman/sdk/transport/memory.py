"""Links through the in-memory network, so that thousands of callers run on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dragoman.live.protocol import Message, SubProtocol, encode
from dragoman.sdk.transport.doors import Door
from dragoman.sdk.transport.link import LinkClosed, check_frame

if TYPE_CHECKING:
    # Real nodes and clients need neither the gateway nor the server.
    from dragoman.auth import ApiKey
    from dragoman.live.gateway import Delay, Endpoint, MemoryClient, MemoryNetwork

M = TypeVar("M", bound=Message)


class MemoryDoorConnect(Generic[M]):
    """Connects to an endpoint through a network in memory."""

    def __init__(
        self,
        network: MemoryNetwork,
        endpoint: Endpoint[Any],
        door: Door[M],
        *,
        key: ApiKey | None = None,
        sub: SubProtocol = SubProtocol.MSGPACK,
        delay: Delay | None = None,
    ) -> None:
        self._network = network
        self._endpoint = endpoint
        self._door = door
        self._key = key
        self._sub = sub
        self._delay = delay

    async def __call__(self) -> MemoryLink[M]:
        client = await self._network.connect(
            self._endpoint,
            self._door.decoder,
            offered=[self._sub.value],
            key=self._key,
            delay=self._delay,
        )
        return MemoryLink(client)


class MemoryLink(Generic[M]):
    """A link in memory; its `client` is where faults are made."""

    def __init__(self, client: MemoryClient[M]) -> None:
        # A caller that has a client has imported the gateway already.
        from dragoman.live.gateway import ConnectionClosed

        self.client = client
        self._closed = ConnectionClosed
        self._max_frame_bytes: int | None = None

    def limit(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes

    async def send(self, message: Message) -> None:
        frame = encode(message, self.client.sub)
        check_frame(frame, self._max_frame_bytes)
        try:
            await self.client.send_frame(frame)
        except self._closed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def receive(self) -> M:
        try:
            return await self.client.receive()
        except self._closed as closed:
            raise LinkClosed(closed.code, closed.reason) from closed

    async def close(self) -> None:
        await self.client.close()
