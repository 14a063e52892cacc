"""The WebSocket transport: an ASGI application for one endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from starlette.types import Receive as AsgiReceive
from starlette.types import Scope
from starlette.types import Send as AsgiSend

from dragoman.auth import presented_key, remote_address
from dragoman.live.gateway.admission import Handshake
from dragoman.live.gateway.closing import CloseCode, Closed
from dragoman.live.gateway.conversation import serve_connection
from dragoman.live.gateway.endpoint import Endpoint
from dragoman.live.gateway.wire import Frame
from dragoman.live.protocol import SubProtocol

M = TypeVar("M")

ABORT_KEY = "dragoman.abort"
"""Where `SocketProtocol` puts, in the ASGI scope, the call that drops the socket."""

WRITE_KEY = "dragoman.write"
"""Where it puts the call that writes a message without the way through ASGI."""

_LINGER_SECONDS = 15.0
"""How long a socket may take to say goodbye after its connection has ended here."""

_NO_STATUS = 1005

_GONE = (OSError, RuntimeError)
"""What `send` raises for a peer that is gone: lost, or, as a RuntimeError, already closed."""


class WebSocketApp(Generic[M]):
    """Serves an endpoint over WebSocket; to be given to a `WebSocketRoute`.

    The socket is accepted whoever comes, then closed with a code if a check fails: a browser can
    read the code of a close, but not the status of a refused handshake.
    """

    def __init__(self, endpoint: Endpoint[M]) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        await receive()  # websocket.connect, always the first
        handshake = handshake_of(scope)
        sub = SubProtocol.choose(handshake.offered) if handshake.offered else None
        try:
            await send({"type": "websocket.accept", "subprotocol": sub.value if sub else None})
        except OSError:  # gone before it was let in
            return
        abort = scope.get(ABORT_KEY, _cannot_abort)
        try:
            await serve_connection(
                self._endpoint,
                handshake,
                AsgiWire(send, abort, scope.get(WRITE_KEY, _cannot_write)),
                _frames(receive),
            )
        finally:
            # A peer that no longer reads would otherwise hold its socket for ever.
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, abort)


def handshake_of(scope: Scope) -> Handshake:
    """What an ASGI scope says of the caller."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    return Handshake(
        remote=remote_address(scope),
        offered=tuple(scope.get("subprotocols", ())),
        key=presented_key(scope),
        origin=headers.get(b"origin"),
        host=headers.get(b"host"),
    )


def _frames(receive: AsgiReceive) -> Callable[[], Coroutine[Any, Any, Frame | Closed]]:
    async def next_frame() -> Frame | Closed:
        event = await receive()
        if event["type"] == "websocket.receive":
            text: str | None = event.get("text")
            data: Frame = event["bytes"] if text is None else text
            return data
        return _closed(event.get("code", _NO_STATUS), event.get("reason"))

    return next_frame


def _closed(code: int, reason: str | None) -> Closed:
    """The end as uvicorn reports it.

    A socket that broke is reported as 1005 without a reason, a close frame without a code as 1005
    with an empty one; only the first is abnormal.
    """
    if code == _NO_STATUS and reason is None:
        return Closed(CloseCode.ABNORMAL)
    return Closed(code, reason or "")


class AsgiWire:
    """Writes at once where the server can, else through an ASGI `send`, without a task of its own.

    uvicorn's `send` only waits while its write buffer is full. So it is started right here, and
    becomes something to await in the rare case that it has to wait.
    """

    __slots__ = ("_send", "_write_now", "abort")

    def __init__(
        self,
        send: AsgiSend,
        abort: Callable[[], None],
        write_now: Callable[[Frame], bool],
    ) -> None:
        self._send = send
        self._write_now = write_now
        self.abort = abort

    def write(self, frame: Frame) -> Awaitable[None] | None:
        if self._write_now(frame):
            return None
        kind = "text" if isinstance(frame, str) else "bytes"
        return _begin(self._send({"type": "websocket.send", kind: frame}))

    def close(self, code: int, reason: str) -> Awaitable[None] | None:
        return _begin(self._send({"type": "websocket.close", "code": int(code), "reason": reason}))


def _begin(sending: Any) -> Awaitable[None] | None:
    """Run a coroutine up to where it waits; None when it is done, or the peer is gone."""
    try:
        waits_for = sending.send(None)
    except (StopIteration, *_GONE):
        return None
    return _Rest(sending, waits_for)


class _Rest:
    """The rest of a coroutine that was begun by hand."""

    __slots__ = ("_sending", "_waits_for")

    def __init__(self, sending: Any, waits_for: Any) -> None:
        self._sending = sending
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
            yield from self._sending.__await__()
        except _GONE:
            pass
        finally:
            self._sending.close()


def _cannot_abort() -> None:
    """Under another server than ours the socket ends when that server sees fit."""


def _cannot_write(frame: Frame) -> bool:
    """Under another server than ours everything goes through ASGI."""
    return False
