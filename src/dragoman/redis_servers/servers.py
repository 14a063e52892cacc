"""The Redis servers: one, or a Cluster in which a tag may move while we speak."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.cluster import PRIMARY
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    RedisError,
    SlotNotCoveredError,
)

_TAGS_KNOWN = 8_192
"""Tags whose slots are remembered; tags of sessions and tenants come and go."""

ANY_LANE = ""
"""For a tag whose server is not known yet: whichever is asked will say."""


class Servers(Protocol):
    """The way to the server that holds a tag."""

    one_tag_a_call: bool
    """Whether a call may name keys of one tag only."""

    def lane(self, tag: str) -> str:
        """Name the server that holds a tag; commands of one lane travel together."""
        ...

    def lane_named_by(self, error: AskError) -> str:
        """The server that a server said to ask instead; a MovedError is an AskError too."""
        ...

    def broke(self, lane: str) -> None:
        """The connection to a server was lost: its role may have changed."""
        ...

    async def connection(self, lane: str) -> AbstractConnection:
        """A connection to a server, described and not yet open."""
        ...

    async def own_connection(self) -> AbstractConnection:
        """A separate connection to listen on; the caller closes it."""
        ...

    async def masters(self) -> tuple[str, ...]:
        """The lanes of all servers that hold keys."""
        ...

    async def close(self) -> None: ...


def open_servers(url: str, timeout_ms: int, *, cluster: bool) -> Servers:
    """The server at a URL, or the Redis Cluster it belongs to. Nothing is sent yet."""
    return ClusterServers(url, timeout_ms) if cluster else SingleServer(url, timeout_ms)


class SingleServer:
    """One Redis: every tag is in the same place."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        self.one_tag_a_call = False
        self._pool = ConnectionPool.from_url(url, **_options(timeout_ms), socket_timeout=None)

    def lane(self, tag: str) -> str:
        return ANY_LANE

    def lane_named_by(self, error: AskError) -> str:
        return ANY_LANE

    def broke(self, lane: str) -> None:
        """There is no other."""

    async def connection(self, lane: str) -> AbstractConnection:
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def own_connection(self) -> AbstractConnection:
        return await self.connection(ANY_LANE)

    async def masters(self) -> tuple[str, ...]:
        return (ANY_LANE,)

    async def close(self) -> None:
        """Nothing is open here."""


class ClusterServers:
    """A Redis Cluster: a tag is where its slot is."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        client = RedisCluster.from_url(
            url, **_options(timeout_ms), socket_timeout=timeout_ms / 1000
        )
        # The client itself would learn every command there is, too, before it is of use.
        self._map = client.nodes_manager
        self.one_tag_a_call = True
        self._ready = False
        self._listeners = 0
        self._learning: asyncio.Task[None] | None = None

    def lane(self, tag: str) -> str:
        try:
            name: str = self._map.get_node_from_slot(_slot(tag)).name
        except (KeyError, SlotNotCoveredError):
            return ANY_LANE
        return name

    def lane_named_by(self, error: AskError) -> str:
        if isinstance(error, MovedError):
            self._learn()
        return f"{error.host}:{error.port}"

    def broke(self, lane: str) -> None:
        if lane and self._map.get_node(node_name=lane) is not None:
            self._map.move_node_to_end_of_cached_nodes(lane)
        self._learn()

    async def connection(self, lane: str) -> AbstractConnection:
        await self._meet()
        node = self._map.get_node(node_name=lane) if lane else self._map.default_node
        if node is None:
            self._learn()
            raise ClusterDownError("the cluster named a server that is not known yet")
        return _described(node)

    async def own_connection(self) -> AbstractConnection:
        await self._meet()
        primaries: list[ClusterNode] = self._map.get_nodes_by_server_type(PRIMARY)
        # The next one each time: a caller that lost a connection gets another server.
        self._listeners += 1
        return _described(primaries[self._listeners % len(primaries)])

    async def masters(self) -> tuple[str, ...]:
        await self._map.initialize()
        self._ready = True
        primaries: list[ClusterNode] = self._map.get_nodes_by_server_type(PRIMARY)
        return tuple(sorted(node.name for node in primaries))

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            with suppress(asyncio.CancelledError):
                await self._learning
        await self._map.aclose()
        await self._map.aclose("startup_nodes")

    async def _meet(self) -> None:
        if self._ready:
            return
        try:
            await self._map.initialize()
        except RedisClusterException as error:
            # It is none of redis-py's own errors, and means the same.
            raise ClusterDownError(str(error)) from error
        self._ready = True

    def _learn(self) -> None:
        """Ask the cluster who holds what, beside the work on servers that are well."""
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn_slots())

    async def _learn_slots(self) -> None:
        with suppress(RedisError, RedisClusterException, OSError):
            await self._map.initialize()


def _described(node: ClusterNode) -> AbstractConnection:
    connection: AbstractConnection = node.connection_class(**node.connection_kwargs)
    return connection


@lru_cache(_TAGS_KNOWN)
def _slot(tag: str) -> int:
    return key_slot(tag.encode())


def _options(timeout_ms: int) -> dict[str, Any]:
    return {
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": timeout_ms / 1000,
        "protocol": 2,
    }
