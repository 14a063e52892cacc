"""A network in memory: it connects clients to endpoints, on the virtual loop or on a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Generic, TypeVar

from dragoman.auth import ApiKey
from dragoman.live.gateway.admission import Handshake
from dragoman.live.gateway.conversation import serve_connection
from dragoman.live.gateway.endpoint import Decodes, Endpoint
from dragoman.live.gateway.feeds import pulling
from dragoman.live.gateway.memory.client import MemoryClient
from dragoman.live.gateway.memory.delays import Delay, instant
from dragoman.live.gateway.memory.direct import DirectLink, ReadDirectly, Uncoded, as_it_is, uncoded
from dragoman.live.gateway.memory.link import DuplexLink, ServerWire
from dragoman.live.gateway.wire import Frame, WireClosed
from dragoman.live.protocol import SubProtocol, encoder

M = TypeVar("M")
R = TypeVar("R")

_BUFFER_BYTES = 65_536  # where asyncio's own sockets begin to hold a writer back


class MemoryNetwork:
    """Connects clients to endpoints; all its chance comes from `random`.

    `delay` may be changed at any time and holds for frames sent from then on, on links that have
    none of their own. With `codec` off, messages travel as the objects they are: quicker, but
    nothing tests that they can be written and read.
    """

    def __init__(
        self,
        random: Random,
        *,
        delay: Delay = instant,
        codec: bool = True,
        buffer_bytes: int = _BUFFER_BYTES,
    ) -> None:
        self.delay = delay
        self._random = random
        self._codec = codec
        self._buffer_bytes = buffer_bytes
        self._links: dict[DuplexLink, asyncio.Task[None]] = {}
        self._direct: dict[DirectLink[Any], asyncio.Task[None]] = {}

    @property
    def links(self) -> Sequence[DuplexLink]:
        """The links whose server end is open, the oldest first."""
        return list(self._links)

    async def connect(
        self,
        endpoint: Endpoint[M],
        decoder: Decodes[R],
        *,
        offered: Sequence[str] = (),
        key: ApiKey | None = None,
        origin: str | None = None,
        host: str | None = None,
        remote: str = "memory",
        delay: Delay | None = None,
    ) -> MemoryClient[R]:
        """A new connection to an endpoint; `decoder` reads what the server sends.

        As on a WebSocket, a caller who is refused is connected first and then closed with the code.
        """

        def draw_delay() -> float:
            return (delay or self.delay)(self._random)

        await asyncio.sleep(draw_delay())
        link = DuplexLink(endpoint, draw_delay, self._buffer_bytes)
        handshake = Handshake(remote=remote, offered=offered, key=key, origin=origin, host=host)
        task = asyncio.get_running_loop().create_task(self._serve(endpoint, handshake, link))
        self._links[link] = task
        task.add_done_callback(lambda _: self._links.pop(link))
        await asyncio.sleep(draw_delay())
        sub = SubProtocol.choose(offered) or SubProtocol.JSON
        if self._codec:
            return MemoryClient(link, sub, encoder(sub), decoder)
        return MemoryClient(link, sub, uncoded, _Unwrap(decoder))

    def connect_directly(
        self,
        endpoint: Endpoint[Any],
        hear: Callable[[R], None],
        on_end: Callable[[WireClosed], None],
        *,
        key: ApiKey | None = None,
        remote: str = "memory",
    ) -> DirectLink[R]:
        """A connection whose messages are handed over in one call, without delay or frames."""
        link = DirectLink(hear, on_end)
        serving = serve_connection(
            replace(endpoint, decoder=ReadDirectly()),
            Handshake(remote=remote, key=key),
            link,
            link.feed,
            encode=as_it_is,
        )
        task = asyncio.get_running_loop().create_task(serving)
        self._direct[link] = task
        task.add_done_callback(lambda _: self._direct.pop(link))
        return link

    async def close(self) -> None:
        """Cut every link, and wait until the server's ends are through."""
        tasks = [*self._links.values(), *self._direct.values()]
        for link in self.links:
            link.cut()
        for direct in list(self._direct):
            direct.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, endpoint: Endpoint[Any], handshake: Handshake, link: DuplexLink) -> None:
        wire = ServerWire(link)
        try:
            if self._codec:
                await serve_connection(endpoint, handshake, wire, pulling(link.to_server.get))
            else:
                unwrapping = replace(endpoint, decoder=_Unwrap(endpoint.decoder))
                await serve_connection(
                    unwrapping, handshake, wire, pulling(link.to_server.get), encode=uncoded
                )
        except BaseException:
            wire.abort()
            raise


class _Unwrap(Generic[R]):
    """Takes the message out of a frame that stands for one; real frames are read as ever."""

    def __init__(self, decoder: Decodes[R]) -> None:
        self._decoder = decoder

    def reader(self, sub: SubProtocol) -> Callable[[Any], R]:
        read = self._decoder.reader(sub)
        return lambda data: data.message if isinstance(data, Uncoded) else read(data)

    def decode(self, data: Frame, sub: SubProtocol) -> R:
        if isinstance(data, Uncoded):
            message: R = data.message
            return message
        return self._decoder.decode(data, sub)
