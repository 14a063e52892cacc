"""A connection between two ends in memory, and what can happen to it on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.live.gateway.endpoint import Endpoint
from dragoman.live.gateway.memory.direction import Direction
from dragoman.live.gateway.wire import CloseCode, Frame, WireClosed

_GONE = WireClosed(CloseCode.ABNORMAL)


class DuplexLink:
    """Both directions of one connection, and its faults.

    `to_server` and `to_client` can be paused, resumed, or made to lose what they carry, each by
    itself; `cut` ends the whole.
    """

    def __init__(
        self, endpoint: Endpoint[Any], draw_delay: Callable[[], float], buffer_bytes: int
    ) -> None:
        self.endpoint = endpoint
        self.to_server = Direction(draw_delay, buffer_bytes)
        self.to_client = Direction(draw_delay, buffer_bytes)
        # A side that knows that nothing will come also knows that its writes are not read.
        self.to_server.on_end = self.to_client.release
        self.to_client.on_end = self.to_server.release
        self.is_cut = False
        self.draw_delay = draw_delay

    def cut(
        self,
        *,
        client_notices_after: float | None = 0.0,
        server_notices_after: float | None = 0.0,
    ) -> None:
        """Break the connection; each side notices after so many seconds, or, with None, never.

        What is under way is lost. A side that does not notice is left with a half-open connection:
        it may write, and nothing comes.
        """
        if self.is_cut:
            return
        self.is_cut = True
        for reads, notices_after in (
            (self.to_client, client_notices_after),
            (self.to_server, server_notices_after),
        ):
            reads.lose()
            if notices_after is not None:
                asyncio.get_running_loop().call_later(notices_after, reads.end, _GONE)


class ServerWire:
    """The server's way of writing to a link."""

    def __init__(self, link: DuplexLink) -> None:
        self._link = link

    def write_now(self, frame: Frame) -> bool:
        if not self._link.to_client.has_room:
            return False
        self._link.to_client.put(frame)
        return True

    def write(self, frame: Frame) -> Awaitable[None] | None:
        if self.write_now(frame):
            return None
        return self._write_when_there_is_room(frame)

    def close(self, code: int, reason: str) -> Awaitable[None] | None:
        if self._link.to_client.has_room:
            self._say_goodbye(WireClosed(code, reason))
            return None
        return self._close_when_there_is_room(WireClosed(code, reason))

    def abort(self) -> None:
        link = self._link
        link.cut(client_notices_after=link.draw_delay(), server_notices_after=None)
        link.to_server.end(_GONE)

    async def _write_when_there_is_room(self, frame: Frame) -> None:
        await self._link.to_client.wait_for_room()
        self._link.to_client.put(frame)

    async def _close_when_there_is_room(self, end: WireClosed) -> None:
        await self._link.to_client.wait_for_room()
        self._say_goodbye(end)

    def _say_goodbye(self, end: WireClosed) -> None:
        """The server that has closed is through, whether or not the client ever hears of it."""
        self._link.to_client.put(end)
        self._link.to_server.end(end)
