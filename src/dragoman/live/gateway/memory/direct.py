"""A connection without a way: messages are handed over as the objects they are, in one call.

For simulations of many peers, where frames, queues and a task for each reader would cost more
than the scheduler itself. Everything behind the socket is as ever: admission, limits, handlers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

from dragoman.live.gateway.wire import CloseCode, Frame, Handle, WireClosed
from dragoman.live.protocol import Message, SubProtocol

R = TypeVar("R")

_GONE = WireClosed(CloseCode.ABNORMAL)


class Uncoded(bytes):
    """A frame that only stands for its message."""

    message: Any


def uncoded(message: Message) -> Uncoded:
    frame = Uncoded()
    frame.message = message
    return frame


def as_it_is(message: Message) -> Any:
    """What a direct link writes: the message itself."""
    return message


class ReadDirectly(Generic[R]):
    """Takes the message out of the frame that stands for it."""

    def reader(self, sub: SubProtocol) -> Callable[[Any], R]:
        return attrgetter("message")

    def decode(self, data: Frame, sub: SubProtocol) -> R:
        assert isinstance(data, Uncoded), "nothing is written as bytes here"
        message: R = data.message
        return message


class DirectLink(Generic[R]):
    """A peer's end of a connection, and the faults of its network.

    What the server says arrives in `hear`, inside the server's own call: a peer answers later,
    from a timer or a callback of its own, never from within `hear`.
    """

    def __init__(self, hear: Callable[[R], None], on_end: Callable[[WireClosed], None]) -> None:
        """`on_end` is called once, when the peer learns that the connection is over."""
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._frame = Uncoded()
        """Stands for one message after another: each is read before the next is said."""
        self._on_end = on_end
        self._handle: Handle | None = None
        self._ended: asyncio.Future[WireClosed] = self._loop.create_future()
        self._waiting: deque[Message] = deque()
        """What was said while the server was still at an earlier message."""
        self._busy = True
        self._lost = False
        """Neither side hears the other any more."""
        self._peer_knows = False

    @property
    def is_open(self) -> bool:
        """Whether the peer takes the connection to be there."""
        return not self._peer_knows

    def say(self, message: Message) -> None:
        """Hand a message to the server; one said into a lost connection vanishes."""
        if self._lost:
            return
        if self._busy:
            self._waiting.append(message)
            return
        assert self._handle is not None, "a link that is not busy is served"
        frame = self._frame
        frame.message = message
        waits = self._handle(frame)
        if waits is not None:
            self._wait_for(waits)

    def cut(
        self,
        *,
        client_notices_after: float | None = 0.0,
        server_notices_after: float | None = 0.0,
    ) -> None:
        """Break the connection; each side notices after so many seconds, or, with None, never."""
        if self._lost:
            return
        self._lost = True
        self._waiting.clear()
        if client_notices_after is not None:
            self._loop.call_later(client_notices_after, self._tell_peer, _GONE)
        if server_notices_after is not None:
            self._loop.call_later(server_notices_after, self._tell_server, _GONE)

    # --- the server's end -----------------------------------------------------------------------

    async def feed(self, handle: Handle) -> WireClosed:
        """Have messages handled where they are said, until the connection is over."""
        self._handle = handle
        self._go_on()
        return await self._ended

    def write_now(self, frame: Any) -> bool:
        if not self._lost:
            self._hear(frame)
        return True

    def write(self, frame: Frame) -> Awaitable[None] | None:
        self.write_now(frame)
        return None

    def close(self, code: int, reason: str) -> Awaitable[None] | None:
        end = WireClosed(code, reason)
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._tell_peer, end)
        self._loop.call_soon(self._tell_server, end)
        return None

    def abort(self) -> None:
        self.cut(server_notices_after=None)
        self._tell_server(_GONE)

    # --- inside ---------------------------------------------------------------------------------

    def _wait_for(self, waits: Awaitable[None]) -> None:
        self._busy = True
        task = self._loop.create_task(_finish(waits))
        task.add_done_callback(lambda _: self._go_on())

    def _go_on(self) -> None:
        self._busy = False
        while self._waiting and not self._busy:
            self.say(self._waiting.popleft())

    def _tell_peer(self, end: WireClosed) -> None:
        if not self._peer_knows:
            self._peer_knows = True
            self._on_end(end)

    def _tell_server(self, end: WireClosed) -> None:
        if not self._ended.done():
            self._ended.set_result(end)


async def _finish(waits: Awaitable[None]) -> None:
    await waits
