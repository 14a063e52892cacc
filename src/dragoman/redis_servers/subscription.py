"""Listening to channels, on a connection of its own that is known to be alive."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from dragoman.errors import DependencyDown
from dragoman.redis_servers.servers import Servers


class Subscription:
    """What is published on some channels, for as long as the connection lasts.

    Redis forgets a listener whose connection breaks, and does not repeat what it missed: when
    listening ends with DependencyDown, the listener asks anew and makes up for the gap.
    """

    def __init__(self, servers: Servers, channels: Sequence[str], timeout_ms: int) -> None:
        self._servers = servers
        self._channels = channels
        self._timeout_ms = timeout_ms

    async def messages(self) -> AsyncGenerator[bytes | None]:
        """None once everything is listened to, then each message as it comes."""
        connection = await self._connect()
        pinging = asyncio.create_task(self._ping(connection))
        heard = 0
        try:
            while True:
                kind, _, payload = await self._read(connection)
                if kind == b"message":
                    yield payload
                elif kind == b"subscribe":
                    heard += 1
                    if heard == len(self._channels):
                        yield None
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)
            await connection.disconnect(nowait=True)

    async def _connect(self) -> AbstractConnection:
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                connection = await self._servers.own_connection()
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SUBSCRIBE", *self._channels)
        except BaseException as error:
            if connection is not None:
                await connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                raise self._silent("cannot be listened to") from error
            if isinstance(error, RedisError | OSError):
                raise DependencyDown(f"Redis cannot be listened to ({error}).") from error
            raise
        return connection

    async def _read(self, connection: AbstractConnection) -> tuple[bytes, bytes, bytes]:
        try:
            # Pings are answered in between, so a silence longer than theirs is a dead connection.
            async with asyncio.timeout(2 * self._timeout_ms / 1000):
                reply = await connection.read_response(timeout=math.inf)
        except TimeoutError as error:
            raise self._silent("can no longer be listened to") from error
        except (RedisError, OSError) as error:
            raise DependencyDown(f"Redis can no longer be listened to ({error}).") from error
        kind, *rest = reply
        return (kind, rest[0], rest[1]) if len(rest) == 2 else (kind, b"", rest[0])

    def _silent(self, what: str) -> DependencyDown:
        return DependencyDown(f"Redis {what} (no answer within {self._timeout_ms} ms).")

    async def _ping(self, connection: AbstractConnection) -> None:
        while True:
            await asyncio.sleep(self._timeout_ms / 1000)
            await connection.send_command("PING")
