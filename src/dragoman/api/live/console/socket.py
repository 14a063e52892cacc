"""``/ws/console``: tells a page of the console what changes, for as long as it is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import msgspec
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from dragoman.api.live.console.feed import ConsoleFeed
from dragoman.api.live.console.messages import Topic, Watch
from dragoman.auth import (
    Access,
    Authenticator,
    Permission,
    Principal,
    authorize,
    presented_key,
    remote_address,
)
from dragoman.errors import DragomanError, Forbidden, RateLimited, ServerDraining, Unauthorized
from dragoman.live.gateway import CloseCode, Connections, origin_allowed

PERMISSIONS = {
    Topic.OVERVIEW: Permission.STATS,
    Topic.NODES: Permission.NODES,
    Topic.PAIRS: Permission.POOLS,
    Topic.SESSIONS: Permission.SESSIONS,
    Topic.INSTANCES: Permission.CLUSTER,
}
"""What a key must allow for each topic, as over HTTP."""

_CLOSE_CODES = {
    Unauthorized: CloseCode.UNAUTHORIZED,
    Forbidden: CloseCode.FORBIDDEN,
    RateLimited: CloseCode.TOO_MANY,
}
_MAX_REASON_BYTES = 123
_GONE = (OSError, RuntimeError, WebSocketDisconnect)
"""What a socket raises whose peer has left."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Watch).decode


class ConsoleSocket:
    """An ASGI application for ``/ws/console``."""

    def __init__(
        self,
        feed: ConsoleFeed,
        authenticator: Authenticator,
        allowed_origins: Collection[str],
        connections: Connections,
    ) -> None:
        """The connections are those of the live plane, with whom the limits are shared."""
        self._feed = feed
        self._authenticator = authenticator
        self._allowed_origins = frozenset(allowed_origins)
        self._connections = connections
        self._open: set[_Watcher] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        # Every socket is accepted first: a browser can read a close code, but not a refusal.
        await socket.accept()
        watcher = _Watcher(socket, self._feed)
        try:
            watcher.principal = principal = await self._admit(socket)
        except DragomanError as error:
            await watcher.close(_CLOSE_CODES.get(type(error), CloseCode.DRAINING), error.message)
            return
        revoked = CloseCode.UNAUTHORIZED, "the key was revoked, or its holder has signed out"
        stop_watching = self._authenticator.watch(principal, lambda: watcher.end(*revoked))
        stop_counting = self._connections.count(remote_address(scope), principal.key_id)
        self._open.add(watcher)
        try:
            await watcher.run()
        finally:
            self._open.discard(watcher)
            stop_counting()
            stop_watching()

    # --- a part of the server -------------------------------------------------------------------

    async def start(self) -> None:
        """Consoles come by themselves."""

    async def drain(self) -> None:
        """A console holds no work; it comes back to the server that takes over."""
        await self.stop()

    async def stop(self) -> None:
        for watcher in self._open:
            watcher.end(CloseCode.DRAINING, "the server is shutting down")

    async def _admit(self, socket: WebSocket) -> Principal:
        if self._connections.draining:
            raise ServerDraining("the server is shutting down")
        origin, host = socket.headers.get("origin"), socket.headers.get("host")
        if not origin_allowed(origin, host, self._allowed_origins):
            raise Forbidden("pages of this origin may not connect; see server.allowed_origins")
        remote = remote_address(socket.scope)
        principal = await self._authenticator.authenticate(presented_key(socket.scope), remote)
        self._connections.check_room(remote, principal.key_id)
        return principal


class _Watcher:
    """One console and what it was told."""

    principal: Principal

    def __init__(self, socket: WebSocket, feed: ConsoleFeed) -> None:
        self._socket = socket
        self._feed = feed
        self._end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._topics: frozenset[Topic] = frozenset()
        self._cursors: dict[Topic, str] = {}
        self._asked = asyncio.Event()

    def end(self, code: int, reason: str) -> None:
        """Have it end so, unless it has ended otherwise before."""
        if not self._end.done():
            self._end.set_result((code, reason))

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tell())]
        try:
            code, reason = await self._end
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self.close(code, reason)

    async def close(self, code: int, reason: str) -> None:
        fitting = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        with suppress(*_GONE):
            await self._socket.close(code, fitting)

    async def _listen(self) -> None:
        """Take what the page wants to watch, until it leaves."""
        try:
            while True:
                self._take(_decode(await self._socket.receive_text()))
        except DragomanError as error:
            self.end(CloseCode.FORBIDDEN, error.message)
        except (msgspec.DecodeError, KeyError):
            # KeyError: the frame was binary.
            self.end(CloseCode.BAD_FIRST_MESSAGE, "a console sends `watch` with its topics")
        except _GONE:
            self.end(CloseCode.NORMAL, "")

    def _take(self, order: Watch) -> None:
        topics = frozenset(order.topics)
        for topic in topics:
            authorize(self.principal, PERMISSIONS[topic], Access.READ)
        self._cursors = {
            topic: self._cursors.get(topic) or order.cursors.get(topic, "") for topic in topics
        }
        self._topics = topics
        self._asked.set()

    async def _tell(self) -> None:
        """Tell what changed, topic by topic, at most as often as the feed looks.

        A console that reads slowly is told less often: it is told what has become of everything
        since, and nothing waits for it.
        """
        await self._asked.wait()
        try:
            while True:
                self._asked.clear()
                with self._feed.watching(self._topics):
                    while not self._asked.is_set():
                        await self._feed.next_look()
                        await self._tell_news()
        except _GONE:
            self.end(CloseCode.NORMAL, "")

    async def _tell_news(self) -> None:
        for topic in sorted(self._topics):
            for message in self._feed.news(topic, self._cursors.get(topic), self.principal):
                await self._socket.send_text(_encode(message).decode())
                self._cursors[topic] = message.cursor
