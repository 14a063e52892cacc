"""Looking at the clock before every frame: has this process stood still for too long?"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, TypeVar

from dragoman.clock import Clock
from dragoman.errors import InvalidMessage
from dragoman.live.cluster import Pulse
from dragoman.live.gateway.closing import CloseCode
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.endpoint import Handler

M = TypeVar("M")

STOOD_STILL = "this server stood still, and others may have taken over"


class FencedHandler(Generic[M]):
    """Handles a connection, unless the process was paused for longer than others wait for it.

    Others may own what the peer is part of by then: the connection goes before it is heard.
    """

    def __init__(self, handler: Handler[M], pulse: Pulse, clock: Clock) -> None:
        self._handler = handler
        self._pulse = pulse
        self._clock = clock
        self._connection: Connection | None = None

    async def opened(self, connection: Connection) -> None:
        self._connection = connection
        await self._handler.opened(connection)

    def received(self, message: M, now: float) -> Awaitable[None] | None:
        if self._pulse.paused(now) and self._connection is not None:
            self._connection.close(CloseCode.DRAINING, STOOD_STILL)
            return None
        return self._handler.received(message, now)

    async def malformed(self, error: InvalidMessage) -> None:
        await self._handler.malformed(error)

    async def closed(self, code: int, reason: str) -> None:
        await self._handler.closed(code, reason)
