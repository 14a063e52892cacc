"""The table of open connections of this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from dragoman.addresses import address_group
from dragoman.errors import RateLimited
from dragoman.ids import ConnectionId
from dragoman.live.gateway.connection import Connection
from dragoman.live.gateway.limits import SocketCount
from dragoman.live.gateway.wire import CloseCode


class Connections:
    """Every connection that is open now, from before its handler is told until after its end."""

    def __init__(self, *, per_address: int = 0, per_key: int = 0) -> None:
        """The limits are for one address and one key; 0 is no limit."""
        self._of_address = SocketCount(per_address)
        self._of_key = SocketCount(per_key)
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

    def check_room(self, remote: str, key_id: str | None) -> None:
        """Refuse a caller whose address or key has as many sockets as it may."""
        if not self._of_address.has_room(address_group(remote)):
            raise RateLimited("this address has too many sockets: limits.sockets_per_address")
        if key_id is not None and not self._of_key.has_room(key_id):
            raise RateLimited("this key has too many sockets: limits.sockets_per_key")

    def count(self, remote: str, key_id: str | None) -> Callable[[], None]:
        """Count a socket for its address and its key; returns how to stop counting it."""
        group = address_group(remote)
        self._of_address.add(group)
        if key_id is not None:
            self._of_key.add(key_id)

        def stop() -> None:
            self._of_address.remove(group)
            if key_id is not None:
                self._of_key.remove(key_id)

        return stop

    def remove(self, connection: Connection) -> None:
        endpoint_name, _ = self._open.pop(connection.id)
        self._count[endpoint_name] -= 1
        if not self._count[endpoint_name]:
            del self._count[endpoint_name]
        if not self._open:
            self._empty.set()

    def refuse_new(self) -> None:
        """Begin a drain: connected peers stay, new ones are refused."""
        self.draining = True

    def close_all(self, code: CloseCode, reason: str = "") -> None:
        """Close every connection; `wait_empty` tells when they are gone."""
        for connection in self:
            connection.close(code, reason)

    async def wait_empty(self) -> None:
        """Wait until no connection is open."""
        await self._empty.wait()
