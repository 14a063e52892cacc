"""Session links over WebSocket, which is what clients use in earnest."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from dragoman.errors import SettingsError
from dragoman.live.protocol import TO_CLIENT, Message, SchedulerToClient, SubProtocol, encode
from dragoman.sdk.node.link import LinkClosed, Unreachable

SESSION_PATH = "/ws/session"

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_MAX_FRAME_BYTES = 256 * 1024 * 1024  # the scheduler's own limit decides; this one stops madness
_CLOSE_SECONDS = 2.0


def session_url(url: str) -> str:
    """The scheduler's door for clients: without a path, ``/ws/session`` is meant.

    The address that a browser uses, with http or https, does as well.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingsError(
            f"`{url}` is not the address of a scheduler; write it like ws://127.0.0.1:8080"
            " (wss:// where it is behind TLS)"
        )
    path = SESSION_PATH if parts.path in ("", "/") else parts.path
    return urlunsplit(parts._replace(scheme=_SCHEMES[parts.scheme], path=path))


class WebSocketSessionConnect:
    """Connects to a scheduler's URL, with a key where it wants one."""

    def __init__(
        self, url: str, *, token: str | None = None, sub: SubProtocol = SubProtocol.MSGPACK
    ) -> None:
        self.url = session_url(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else None
        self._sub = sub

    async def __call__(self) -> WebSocketSessionLink:
        try:
            socket = await connect(
                self.url,
                subprotocols=[Subprotocol(self._sub.value)],
                additional_headers=self._headers,
                compression=None,  # audio does not shrink
                max_size=_MAX_FRAME_BYTES,
                close_timeout=_CLOSE_SECONDS,
            )
        except InvalidURI as error:
            raise SettingsError(f"`{self.url}` cannot be used: {error}") from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} cannot be reached: {reason}") from error
        return WebSocketSessionLink(socket)


class WebSocketSessionLink:
    """A session link over one WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        # A server that picks no sub-protocol speaks JSON.
        self._sub = SubProtocol(socket.subprotocol) if socket.subprotocol else SubProtocol.JSON

    async def send(self, message: Message) -> None:
        frame = encode(message, self._sub)
        try:
            await self._socket.send(frame)
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed

    async def receive(self) -> SchedulerToClient:
        try:
            frame = await self._socket.recv()
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed
        return TO_CLIENT.decode(frame, self._sub)

    async def close(self) -> None:
        await self._socket.close()


def _link_closed(closed: ConnectionClosed) -> LinkClosed:
    if closed.rcvd is None:
        return LinkClosed()
    return LinkClosed(closed.rcvd.code, closed.rcvd.reason)
