"""The client's end of an in-memory connection."""

from __future__ import annotations

from typing import Generic, TypeVar

from dragoman.live.gateway.connection import Encode
from dragoman.live.gateway.endpoint import Decodes
from dragoman.live.gateway.memory.link import DuplexLink
from dragoman.live.gateway.wire import (
    CloseCode,
    ConnectionClosed,
    Frame,
    WireClosed,
    fitting_reason,
)
from dragoman.live.protocol import Message, SubProtocol

R = TypeVar("R")


class MemoryClient(Generic[R]):
    """What a node or a client program holds: it sends and receives messages, or bare frames.

    Its `link` is where faults are made.
    """

    def __init__(
        self, link: DuplexLink, sub: SubProtocol, encode: Encode, decoder: Decodes[R]
    ) -> None:
        self.link = link
        self.sub = sub
        self._encode = encode
        self._decoder = decoder

    async def send(self, message: Message) -> None:
        """Send a message; waits while the server reads more slowly than this end sends."""
        await self.send_frame(self._encode(message))

    async def send_frame(self, frame: Frame) -> None:
        await self.link.to_server.wait_for_room()
        if self.link.to_client.ended is not None:
            raise ConnectionClosed(self.link.to_client.ended)
        self.link.to_server.put(frame)

    async def receive(self) -> R:
        """The next message; ConnectionClosed when there will be none."""
        return self._decoder.decode(await self.receive_frame(), self.sub)

    async def receive_frame(self) -> Frame:
        item = await self.link.to_client.get()
        if isinstance(item, WireClosed):
            raise ConnectionClosed(item)
        return item

    async def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Close this end; the server learns of it after what was sent before."""
        if self.link.to_client.ended is None:
            end = WireClosed(code, fitting_reason(reason))
            self.link.to_server.put(end)
            self.link.to_client.end(end)
