"""The table of open connections of this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping

from dragoman.ids import ConnectionId
from dragoman.live.gateway.closing import CloseCode
from dragoman.live.gateway.connection import Connection


class Connections:
    """Every connection that is open now, from before its handler is told until after its end."""

    def __init__(self) -> None:
        self.draining = False
        """Whether new connections are turned away with DRAINING."""
        self._open: dict[ConnectionId, tuple[str, Connection]] = {}
        self._count: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter([connection for _, connection in self._open.values()])

    @property
    def counts(self) -> Mapping[str, int]:
        """How many are open on each endpoint, by its name."""
        return dict(self._count)

    @property
    def queued_bytes(self) -> int:
        """What waits, over all connections, for peers that read slowly."""
        return sum(connection.queued_bytes for _, connection in self._open.values())

    def add(self, endpoint_name: str, connection: Connection) -> None:
        self._open[connection.id] = (endpoint_name, connection)
        self._count[endpoint_name] += 1
        self._empty.clear()

    def remove(self, connection: Connection) -> None:
        endpoint_name, _ = self._open.pop(connection.id)
        self._count[endpoint_name] -= 1
        if not self._count[endpoint_name]:
            del self._count[endpoint_name]
        if not self._open:
            self._empty.set()

    def refuse_new(self) -> None:
        """Begin a drain: who is connected stays, nobody else comes in."""
        self.draining = True

    def close_all(self, code: CloseCode, reason: str = "") -> None:
        """Close every connection; `wait_empty` tells when they are gone."""
        for connection in self:
            connection.close(code, reason)

    async def wait_empty(self) -> None:
        """Wait until no connection is open."""
        await self._empty.wait()
