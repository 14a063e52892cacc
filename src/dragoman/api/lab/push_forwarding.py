"""The sockets that show experiments live: the live process admits, the lab's process speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from dragoman.api.lab.child import LabChild
from dragoman.api.lab.principals import PRINCIPAL_HEADER, as_header
from dragoman.auth import (
    Access,
    Authenticator,
    Permission,
    Principal,
    authorize,
    presented_key,
    remote_address,
)
from dragoman.errors import DragomanError, Forbidden, RateLimited, Unauthorized
from dragoman.live.gateway import CloseCode, Connections, origin_allowed

_CLOSE_CODES = {
    Unauthorized: CloseCode.UNAUTHORIZED,
    Forbidden: CloseCode.FORBIDDEN,
    RateLimited: CloseCode.TOO_MANY,
}
_MAX_REASON_BYTES = 123  # a close frame holds 125 bytes, two of them are the code
_GONE = (OSError, RuntimeError, WebSocketDisconnect)
"""What a socket raises whose peer has left: lost, or, as a RuntimeError, already closed."""


class PushForwarder:
    """An ASGI application for ``/ws/experiments`` and ``/ws/experiments/{experiment_id}``."""

    def __init__(
        self,
        child: LabChild,
        authenticator: Authenticator,
        allowed_origins: Collection[str],
        connections: Connections,
    ) -> None:
        """The connections are those of the live plane, with whom the limits are shared."""
        self._child = child
        self._authenticator = authenticator
        self._allowed_origins = frozenset(allowed_origins)
        self._connections = connections
        self._open: set[_Relay] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        # Every socket is accepted first: a browser can read a close code, but not a refusal.
        await socket.accept()
        relay = _Relay(socket)
        try:
            principal = await self._admit(socket)
            path = self._child.socket_path
        except DragomanError as error:
            relay.end(_CLOSE_CODES.get(type(error), CloseCode.DRAINING), error.message)
            await relay.say_goodbye()
            return
        revoked = CloseCode.UNAUTHORIZED, "the key was revoked"
        stop_watching = self._authenticator.watch(principal, lambda: relay.end(*revoked))
        stop_counting = self._connections.count(remote_address(scope), principal.key_id)
        self._open.add(relay)
        try:
            await relay.run(path, principal)
        finally:
            self._open.discard(relay)
            stop_counting()
            stop_watching()

    def close_all(self) -> None:
        """End every socket, as a server that stops does."""
        for relay in self._open:
            relay.end(CloseCode.DRAINING, "the server is shutting down")

    async def _admit(self, socket: WebSocket) -> Principal:
        origin, host = socket.headers.get("origin"), socket.headers.get("host")
        if not origin_allowed(origin, host, self._allowed_origins):
            raise Forbidden("Pages of this origin may not connect; see server.allowed_origins.")
        principal = await self._authenticator.authenticate(
            presented_key(socket.scope), remote_address(socket.scope)
        )
        authorize(principal, Permission.EXPERIMENTS, Access.READ)
        self._connections.check_room(remote_address(socket.scope), principal.key_id)
        return principal


class _Relay:
    """One caller's socket and its twin to the lab's process, until either of them ends."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._end: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    def end(self, code: int, reason: str) -> None:
        """Have it end so, unless it has ended otherwise before."""
        if not self._end.done():
            self._end.set_result((code, reason))

    async def run(self, path: str, principal: Principal) -> None:
        headers = {PRINCIPAL_HEADER: as_header(principal)}
        asked = f"ws://lab{self._socket.url.path}"
        try:
            async with unix_connect(
                path, asked, additional_headers=headers, compression=None, max_size=None
            ) as lab:
                await self._until_the_end(lab)
        except (OSError, WebSocketException):
            self.end(CloseCode.DRAINING, "the lab is being started again; connect again")
        await self.say_goodbye()

    async def say_goodbye(self) -> None:
        code, reason = await self._end
        fitting = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        with suppress(*_GONE):
            await self._socket.close(code, fitting)

    async def _until_the_end(self, lab: ClientConnection) -> None:
        tasks = [asyncio.create_task(self._pass_on(lab)), asyncio.create_task(self._listen())]
        try:
            # Whichever task ends first says why.
            await asyncio.shield(self._end)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(self, lab: ClientConnection) -> None:
        with suppress(ConnectionClosed, *_GONE):
            async for message in lab:
                await self._socket.send_text(str(message))
        if lab.close_code in (None, CloseCode.ABNORMAL):
            self.end(CloseCode.DRAINING, "the lab is being started again; connect again")
        else:
            self.end(lab.close_code or CloseCode.NORMAL, lab.close_reason or "")

    async def _listen(self) -> None:
        """Notice when the caller leaves; messages from callers are ignored."""
        with suppress(*_GONE):
            while True:
                await self._socket.receive()
                if self._socket.client_state.name == "DISCONNECTED":
                    break
        self.end(CloseCode.NORMAL, "")
