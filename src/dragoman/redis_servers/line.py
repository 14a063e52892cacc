"""Calls to Redis, each answered or refused within a time, and never retried behind one's back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha1
from typing import Protocol

import msgspec
from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError

from dragoman.errors import DependencyDown, DragomanError, InternalError
from dragoman.redis_servers.servers import Command, Reply, Servers

_REDIRECTS = 3
"""A slot that moves is followed this often within one call."""

_BROKEN_SCRIPT = ("user_script:", "Error running script")
"""How the error of a script that is wrong begins, on newer servers and on older ones."""


class Script(msgspec.Struct, frozen=True):
    """A script as the server gets it, and the name the server knows it by."""

    source: str
    sha: str
    keys: tuple[str, ...]
    """The last parts of its keys' names, in the order of KEYS."""

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        return cls(source, sha1(source.encode(), usedforsecurity=False).hexdigest(), keys)


class Request(Protocol):
    """Something to send, first in short and, when the server does not know it, in full."""

    def by_name(self) -> Command: ...

    def in_full(self) -> Command: ...


class Call(msgspec.Struct, frozen=True):
    """One run of a script on the keys of one tag."""

    script: Script
    keys: tuple[bytes, ...]
    arguments: list[bytes]

    def by_name(self) -> Command:
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)

    def in_full(self) -> Command:
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.arguments)


class Plain(msgspec.Struct, frozen=True):
    """One plain command, for what a script cannot do: to wait, for example."""

    words: Command

    def by_name(self) -> Command:
        return self.words

    def in_full(self) -> Command:
        return self.words


class Line:
    """The line to the servers."""

    def __init__(self, servers: Servers, timeout_ms: int) -> None:
        self._servers = servers
        self._timeout_ms = timeout_ms

    def lane(self, tag: str) -> str:
        """Name the server that holds a tag."""
        return self._servers.lane(tag)

    async def send(self, lane: str, calls: Sequence[Request]) -> list[Reply | DragomanError]:
        """What the server answered to each call, or why it could not."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._send(lane, calls)
        except TimeoutError:
            raise self._down(f"did not answer within {self._timeout_ms} ms") from None
        except (RedisError, OSError) as error:
            raise self._down(f"cannot be reached ({error})") from error

    async def close(self) -> None:
        await self._servers.close()

    async def _send(self, lane: str, calls: Sequence[Request]) -> list[Reply | DragomanError]:
        replies = await self._servers.exchange(lane, [call.by_name() for call in calls])
        await self._introduce(lane, calls, replies)
        for position, call in enumerate(calls):
            reply = replies[position]
            if isinstance(reply, ResponseError):
                replies[position] = await self._insist(lane, call, reply)
        return replies

    async def _introduce(self, lane: str, calls: Sequence[Request], replies: list[Reply]) -> None:
        """Send calls again whose scripts were not known, each script in full once, all together."""
        unknown = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if not unknown:
            return
        commands: dict[int, Command] = {}
        introduced = set()
        for place in unknown:
            named = calls[place].by_name()
            commands[place] = named if named[1] in introduced else calls[place].in_full()
            introduced.add(named[1])
        again = await self._servers.exchange(lane, list(commands.values()))
        for place, reply in zip(unknown, again, strict=True):
            replies[place] = reply

    async def _insist(self, lane: str, call: Request, reply: Reply) -> Reply | DragomanError:
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
        if not isinstance(reply, ResponseError):
            return reply
        if str(reply).startswith(_BROKEN_SCRIPT):
            return InternalError(f"A script failed in Redis: {reply}")
        return self._down(f"cannot do it now ({reply})")

    def _down(self, what: str) -> DependencyDown:
        return DependencyDown(
            f"Redis {what}. Whether the operation took effect is unknown; asking again is safe.",
            retry_after_ms=self._timeout_ms,
        )
