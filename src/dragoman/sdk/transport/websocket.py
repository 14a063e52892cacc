"""Links over WebSocket, as real nodes and clients use them."""

from __future__ import annotations

from typing import Generic, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from dragoman.errors import SettingsError
from dragoman.live.protocol import Decoder, Message, SubProtocol, encode
from dragoman.sdk.transport.doors import Door, door_url
from dragoman.sdk.transport.link import LinkClosed, Unreachable, check_frame

M = TypeVar("M", bound=Message)

_MAX_FRAME_BYTES = 256 * 1024 * 1024  # the scheduler's limit decides; this one bounds memory
_CLOSE_SECONDS = 2.0


class WebSocketDoorConnect(Generic[M]):
    """Connects to a socket of a scheduler, with a key if it needs one."""

    def __init__(
        self,
        url: str,
        door: Door[M],
        *,
        token: str | None = None,
        sub: SubProtocol = SubProtocol.MSGPACK,
    ) -> None:
        self.url = door_url(url, door.path)
        self._door = door
        self._headers = {"Authorization": f"Bearer {token}"} if token else None
        self._sub = sub

    async def __call__(self) -> WebSocketLink[M]:
        try:
            socket = await connect(
                self.url,
                subprotocols=[Subprotocol(self._sub.value)],
                additional_headers=self._headers,
                compression=None,  # audio does not shrink, and it would cost time on every job
                max_size=_MAX_FRAME_BYTES,
                close_timeout=_CLOSE_SECONDS,
            )
        except InvalidURI as error:
            raise SettingsError(f"`{self.url}` cannot be used: {error}; check --url") from error
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} cannot be reached: {reason}") from error
        return WebSocketLink(socket, self._door.decoder)


class WebSocketLink(Generic[M]):
    """A link over one WebSocket."""

    def __init__(self, socket: ClientConnection, decoder: Decoder[M]) -> None:
        self._socket = socket
        self._decoder = decoder
        # A server that picks no sub-protocol speaks JSON.
        self._sub = SubProtocol(socket.subprotocol) if socket.subprotocol else SubProtocol.JSON
        self._max_frame_bytes: int | None = None

    def limit(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes

    async def send(self, message: Message) -> None:
        frame = encode(message, self._sub)
        check_frame(frame, self._max_frame_bytes)
        try:
            await self._socket.send(frame)
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed

    async def receive(self) -> M:
        try:
            frame = await self._socket.recv()
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed
        return self._decoder.decode(frame, self._sub)

    async def close(self) -> None:
        await self._socket.close()


def _link_closed(closed: ConnectionClosed) -> LinkClosed:
    if closed.rcvd is None:
        return LinkClosed()
    return LinkClosed(closed.rcvd.code, closed.rcvd.reason)
