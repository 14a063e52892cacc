"""Calls to Redis, each answered or refused within a time, and never retried behind one's back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError

from dragoman.errors import DependencyDown
from dragoman.live.ledger.redis.scripts import Script
from dragoman.live.ledger.redis.servers import Command, Reply, Servers

_REDIRECTS = 3
"""A slot that moves is followed this often within one call."""


class Call(msgspec.Struct, frozen=True):
    """One run of a script on the keys of one tag."""

    script: Script
    keys: tuple[bytes, ...]
    arguments: list[bytes]

    def by_name(self) -> Command:
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)

    def in_full(self) -> Command:
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.arguments)


class Line:
    """The line to the servers."""

    def __init__(self, servers: Servers, timeout_ms: int) -> None:
        self._servers = servers
        self._timeout_ms = timeout_ms

    def lane(self, tag: str) -> str:
        """Name the server that holds a tag."""
        return self._servers.lane(tag)

    async def send(self, lane: str, calls: Sequence[Call]) -> list[Reply | DependencyDown]:
        """What the script answered to each call, or why it could not."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._send(lane, calls)
        except TimeoutError:
            raise self._down(f"did not answer within {self._timeout_ms} ms") from None
        except (RedisError, OSError) as error:
            raise self._down(f"cannot be reached ({error})") from error

    async def close(self) -> None:
        await self._servers.close()

    async def _send(self, lane: str, calls: Sequence[Call]) -> list[Reply | DependencyDown]:
        replies = await self._servers.exchange(lane, [call.by_name() for call in calls])
        for position, call in enumerate(calls):
            reply = replies[position]
            if isinstance(reply, ResponseError):
                replies[position] = await self._insist(lane, call, reply)
        return replies

    async def _insist(self, lane: str, call: Call, reply: Reply) -> Reply | DependencyDown:
        """Get a call through to a server that does not know the script, or not the keys."""
        command = call.by_name()
        for _ in range(_REDIRECTS):
            if isinstance(reply, NoScriptError):
                # A restart, a failover or SCRIPT FLUSH: running it in full makes it known again.
                command = call.in_full()
                reply = (await self._servers.exchange(lane, [command]))[0]
            elif isinstance(reply, AskError):
                # A server that takes the keys over need not know the script yet.
                command = call.in_full()
                reply = await self._servers.follow(reply, command)
            else:
                break
        if isinstance(reply, ResponseError):
            return self._down(f"cannot do it now ({reply})")
        return reply

    def _down(self, what: str) -> DependencyDown:
        return DependencyDown(
            f"Redis {what}. Whether the operation took effect is unknown; asking again is safe.",
            retry_after_ms=self._timeout_ms,
        )
