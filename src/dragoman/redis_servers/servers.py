"""The Redis servers: one, or a Cluster in which a tag may move while we speak."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from hiredis import pack_command
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)

Argument: TypeAlias = bytes | str | int
Command: TypeAlias = tuple[Argument, ...]
Reply: TypeAlias = Any
"""What the server answered, or the error it answered with."""

_TAGS_KNOWN = 8_192
"""Tags whose slots are remembered; tags of sessions and tenants come and go."""

ANY_LANE = ""
"""For a tag whose server is not known yet: whichever is asked will say."""


class Servers(Protocol):
    """The way to the server that holds a tag."""

    def lane(self, tag: str) -> str:
        """Name the server that holds a tag; commands of one lane travel together."""
        ...

    async def exchange(self, lane: str, commands: Sequence[Command]) -> list[Reply]:
        """Send commands in one go and read their replies in order."""
        ...

    async def follow(self, error: AskError, command: Command) -> Reply:
        """Send a command where the server said it belongs; a MovedError is an AskError too."""
        ...

    async def own_connection(self) -> AbstractConnection:
        """A connection that nobody else uses, to listen on; whoever asked for it cuts it."""
        ...

    async def close(self) -> None: ...


def open_servers(url: str, timeout_ms: int, *, cluster: bool) -> Servers:
    """The server at a URL, or the Redis Cluster it belongs to. Nothing is sent yet."""
    return ClusterServers(url, timeout_ms) if cluster else SingleServer(url, timeout_ms)


class SingleServer:
    """One Redis: every tag is in the same place."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        # The exchange as a whole has a time limit, so that reading needs none of its own.
        self._pool = ConnectionPool.from_url(url, **_options(timeout_ms), socket_timeout=None)
        self._idle: list[AbstractConnection] = []

    def lane(self, tag: str) -> str:
        return ANY_LANE

    async def exchange(self, lane: str, commands: Sequence[Command]) -> list[Reply]:
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            return await _converse(connection, commands)
        except (RedisError, OSError):
            # The idle ones lead to the same server, and are most likely as dead as this one.
            await self._hang_up()
            raise
        finally:
            self._idle.append(connection)

    async def follow(self, error: AskError, command: Command) -> Reply:
        return error

    async def own_connection(self) -> AbstractConnection:
        return self._connect()

    async def close(self) -> None:
        await self._hang_up()

    def _connect(self) -> AbstractConnection:
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def _hang_up(self) -> None:
        for connection in self._idle:
            await connection.disconnect()


class ClusterServers:
    """A Redis Cluster: a tag is where its slot is."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        self._client = RedisCluster.from_url(
            url, **_options(timeout_ms), socket_timeout=timeout_ms / 1000
        )
        self._ready = False
        self._listeners = 0
        self._learning: asyncio.Task[None] | None = None

    def lane(self, tag: str) -> str:
        try:
            name: str = self._client.nodes_manager.get_node_from_slot(_slot(tag)).name
        except (KeyError, SlotNotCoveredError):
            return ANY_LANE
        return name

    async def exchange(self, lane: str, commands: Sequence[Command]) -> list[Reply]:
        await self._meet()
        node = self._client.get_node(node_name=lane) if lane else self._client.get_default_node()
        return await self._exchange(node, commands)

    async def follow(self, error: AskError, command: Command) -> Reply:
        node: ClusterNode | None = self._client.get_node(host=error.host, port=error.port)
        if isinstance(error, MovedError):
            self._learn()
            return (await self._exchange(node, (command,)))[0]
        # ASKING counts for the next command of the same connection only.
        return (await self._exchange(node, (("ASKING",), command)))[1]

    async def own_connection(self) -> AbstractConnection:
        await self._meet()
        primaries: list[ClusterNode] = self._client.get_primaries()
        # The next one each time: whoever lost a connection is led to another server.
        self._listeners += 1
        node = primaries[self._listeners % len(primaries)]
        connection: AbstractConnection = node.connection_class(**node.connection_kwargs)
        return connection

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            with suppress(asyncio.CancelledError):
                await self._learning
        await self._client.aclose()

    async def _meet(self) -> None:
        if not self._ready:
            await self._client.initialize()
            self._ready = True

    async def _exchange(self, node: ClusterNode | None, commands: Sequence[Command]) -> list[Reply]:
        if node is None:
            self._learn()
            raise ClusterDownError("the cluster named a server that is not known yet")
        connection = node.acquire_connection()
        try:
            return await _converse(connection, commands)
        except (RedisError, OSError, asyncio.CancelledError):
            self._client.nodes_manager.move_node_to_end_of_cached_nodes(node.name)
            self._learn()
            raise
        finally:
            node.release(connection)

    def _learn(self) -> None:
        """Ask the cluster who holds what, beside the work on servers that are well."""
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._learn_slots())

    async def _learn_slots(self) -> None:
        with suppress(RedisError, OSError):
            await self._client.nodes_manager.initialize()


@lru_cache(_TAGS_KNOWN)
def _slot(tag: str) -> int:
    return key_slot(tag.encode())


async def _converse(connection: AbstractConnection, commands: Sequence[Command]) -> list[Reply]:
    """Write all commands, then read all replies.

    When anything goes wrong on the way the connection is cut, so that nobody reads a reply that
    was meant for somebody else.
    """
    replies: list[Reply] = []
    try:
        # Its stub takes one word only; it takes any number.
        packed = b"".join([pack_command(command) for command in commands])  # type: ignore[arg-type]
        await connection.send_packed_command(packed, check_health=False)
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return replies


def _options(timeout_ms: int) -> dict[str, Any]:
    return {
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": timeout_ms / 1000,
        "protocol": 2,
    }
