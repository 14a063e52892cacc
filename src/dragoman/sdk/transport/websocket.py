"""Links over WebSocket, as real nodes and clients use them."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.exceptions import InvalidMessage as NotHttp
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.typing import Subprotocol

from dragoman.errors import InvalidMessage, SettingsError
from dragoman.live.protocol import NOT_PLAIN, Decoder, Message, SubProtocol, encoder, unencodable
from dragoman.sdk.transport.doors import Door, door_url
from dragoman.sdk.transport.frames import Frame, FrameWriter, ServerFrameReader
from dragoman.sdk.transport.link import LinkClosed, Unreachable, check_frame

M = TypeVar("M", bound=Message)

_MAX_FRAME_BYTES = 256 * 1024 * 1024  # the scheduler's limit decides; this one bounds memory
_CLOSE_SECONDS = 2.0
_END_OF_HEAD = b"\r\n\r\n"
_MAX_HEAD_BYTES = 64 * 1024


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
                create_connection=PlainConnection,
            )
        except InvalidURI as error:
            raise SettingsError(f"`{self.url}` cannot be used: {error}; check --url") from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                f"{self.url} has a certificate that is not trusted here ({error.verify_message}); "
                "name the file of a self-signed one in the variable SSL_CERT_FILE"
            ) from error
        except NotHttp as error:
            hint = "; write wss:// if it has TLS" if self.url.startswith("ws://") else ""
            raise Unreachable(f"{self.url} cannot be reached: {error}{hint}") from error
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} cannot be reached: {reason}") from error
        assert isinstance(socket, PlainConnection)
        return WebSocketLink(socket, self._door.decoder)


class PlainConnection(ClientConnection):
    """A connection whose messages do not pass through the library's queues.

    The library makes the handshake, and it answers pings, keeps the connection alive and closes
    it. Messages are read and written beside it, which is several times cheaper.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.hear: Callable[[Frame], None] = self._keep
        """Called with each message."""
        self.lost: Callable[[], None] = _nothing
        """Called when the connection has ended."""
        self.unheard: deque[Frame] = deque()
        """Messages that came before there was a listener."""
        self._came: asyncio.Future[None] | None = None
        self._head = b""
        """The server's answer to the handshake, as far as it has come."""
        self._read: Callable[[bytes], None] = self._read_head
        self._frame = FrameWriter().frame

    def data_received(self, data: bytes) -> None:
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._wake()
        self.lost()

    async def next_unheard(self) -> Frame:
        """The next message; ConnectionClosed when there will be none."""
        while not self.unheard:
            if self.protocol.state is State.CLOSED:
                raise self.protocol.close_exc
            self._came = self.loop.create_future()
            await self._came
        return self.unheard.popleft()

    def write_now(self, content: Frame) -> bool:
        """Send a message, unless the network is slow or the connection is not open."""
        if self.paused or self.protocol.state is not State.OPEN:
            return False
        self.transport.write(self._frame(content))
        return True

    async def write(self, content: Frame) -> None:
        """Send a message when there is room; ConnectionClosed when the connection has ended."""
        while not self.write_now(content):
            if self.protocol.state is not State.OPEN:
                await self._end()
                raise self.protocol.close_exc
            await self.drain()

    async def _end(self) -> None:
        """Wait until the connection has ended, so that it is known how."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.wait_closed()
        except TimeoutError:
            self.transport.abort()
            await self.wait_closed()

    def _read_head(self, data: bytes) -> None:
        """Give the library the handshake, and nothing of what follows it."""
        self._head += data
        end = self._head.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD) and len(self._head) <= _MAX_HEAD_BYTES:
            return
        head, rest = self._head[:end], self._head[end:]
        super().data_received(head)
        if self.protocol.state is State.OPEN:
            reader = ServerFrameReader(
                _MAX_FRAME_BYTES, self._heard, super().data_received, self._refuse_text
            )
            self._read = reader.feed
        else:
            self._read = super().data_received
        self._head = b""
        if rest:
            self._read(rest)

    def _heard(self, content: Frame) -> None:
        self.hear(content)

    def _refuse_text(self) -> None:
        self.protocol.fail(CloseCode.INVALID_DATA, "a text is not UTF-8")
        self.send_data()

    def _keep(self, content: Frame) -> None:
        self.unheard.append(content)
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)


class WebSocketLink(Generic[M]):
    """A link over one WebSocket."""

    def __init__(self, socket: PlainConnection, decoder: Decoder[M]) -> None:
        self._socket = socket
        self._decoder = decoder
        # A server that picks no sub-protocol speaks JSON.
        self._sub = SubProtocol(socket.subprotocol) if socket.subprotocol else SubProtocol.JSON
        self._encode = encoder(self._sub)
        self._decode = decoder.reader(self._sub)
        self._write_now = socket.write_now
        self._max_frame_bytes: int | None = None

    def limit(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes

    def send_now(self, message: Message) -> bool:
        return self._write_now(self._frame_of(message))

    async def send(self, message: Message) -> None:
        try:
            await self._socket.write(self._frame_of(message))
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed

    async def receive(self) -> M:
        try:
            frame = await self._socket.next_unheard()
        except ConnectionClosed as closed:
            raise _link_closed(closed) from closed
        return self._decoder.decode(frame, self._sub)

    async def listen(
        self, hear: Callable[[M], None], ignored: Callable[[InvalidMessage], None]
    ) -> NoReturn:
        over: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        decode = self._decode

        def heard(frame: Frame) -> None:
            if over.done():
                return
            try:
                message = decode(frame)
            except NOT_PLAIN:
                try:
                    message = self._decoder.decode(frame, self._sub)
                except InvalidMessage as error:
                    ignored(error)
                    return
            try:
                hear(message)
            except Exception as error:
                over.set_exception(error)

        def lost() -> None:
            if not over.done():
                over.set_exception(_link_closed(self._socket.protocol.close_exc))

        socket = self._socket
        while socket.unheard:
            heard(socket.unheard.popleft())
        socket.hear, socket.lost = heard, lost
        if socket.protocol.state is State.CLOSED:
            lost()
        try:
            await over
        finally:
            over.cancel()  # what comes from now on is not heard

    async def close(self) -> None:
        await self._socket.close()

    def _frame_of(self, message: Message) -> Frame:
        try:
            frame = self._encode(message)
        except UnicodeEncodeError as error:
            raise unencodable(message) from error
        if self._max_frame_bytes is not None and len(frame) * 4 > self._max_frame_bytes:
            check_frame(frame, self._max_frame_bytes)
        return frame


def _link_closed(closed: ConnectionClosed) -> LinkClosed:
    if closed.rcvd is None:
        return LinkClosed()
    return LinkClosed(closed.rcvd.code, closed.rcvd.reason)


def _nothing() -> None:
    """No listener is set."""
