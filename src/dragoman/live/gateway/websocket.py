"""The WebSocket transport: an ASGI application for one endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from starlette.types import Receive as AsgiReceive
from starlette.types import Scope
from starlette.types import Send as AsgiSend

from dragoman.auth import presented_key, remote_address
from dragoman.errors import InvalidMessage
from dragoman.live.gateway.admission import Handshake
from dragoman.live.gateway.conversation import serve_connection
from dragoman.live.gateway.endpoint import Endpoint
from dragoman.live.gateway.feeds import pulling
from dragoman.live.gateway.listen_handler import Wanted, wanted_in
from dragoman.live.gateway.wire import CloseCode, Feed, Frame, Receive, WireClosed
from dragoman.live.protocol import ClientToScheduler, SubProtocol

M = TypeVar("M")

SHORTCUT_KEY = "dragoman.shortcut"
"""Where `SocketProtocol` puts itself in the ASGI scope."""

_LINGER_SECONDS = 15.0
"""How long a socket may take to say goodbye after its connection has ended here."""

_NO_STATUS = 1005

_GONE = (OSError, RuntimeError)
"""What `send` raises for a peer that is gone: lost, or, as a RuntimeError, already closed."""


class Shortcut(Protocol):
    """What `SocketProtocol` can do that ASGI cannot."""

    def next_event(self) -> Awaitable[Any]:
        """The next frame, or else an ASGI event."""
        ...

    def pushed(self, read: Callable[[Any], Frame | WireClosed]) -> Feed | None:
        """Have everything handled as it comes, where that can be done."""
        ...

    def write(self, frame: Frame) -> bool:
        """Send a message; False when it must go through ASGI."""
        ...

    def abort(self) -> None:
        """Drop the socket at once."""
        ...

    def abort_in(self, seconds: float) -> None:
        """Drop the socket then, if it has not ended by itself."""
        ...


class WebSocketApp(Generic[M]):
    """Serves an endpoint over WebSocket; to be given to a `WebSocketRoute`.

    Every socket is accepted first, then closed with a code if a check fails: a browser can
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
        shortcut: Shortcut = scope.get(SHORTCUT_KEY) or _NoShortcut(receive)
        try:
            feed = shortcut.pushed(_frame_of) if self._endpoint.at_once else None
            await serve_connection(
                self._endpoint,
                handshake,
                AsgiWire(send, shortcut),
                feed or pulling(_frames(shortcut.next_event)),
            )
        finally:
            # A peer that no longer reads would otherwise hold its socket for ever.
            shortcut.abort_in(_LINGER_SECONDS)


class ListenApp:
    """Serves listeners over WebSocket: the address says which session, and what of it."""

    def __init__(
        self, endpoint: Callable[[Wanted | InvalidMessage], Endpoint[ClientToScheduler]]
    ) -> None:
        """`endpoint` is that of a listener who asks for this."""
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = wanted_in(scope["path_params"]["session_id"], query, presented_key(scope))
        await WebSocketApp(self._endpoint(wanted))(scope, receive, send)


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


def _frames(next_event: Callable[[], Awaitable[Any]]) -> Receive:
    async def next_frame() -> Frame | WireClosed:
        return _frame_of(await next_event())

    return next_frame


def _frame_of(event: Any) -> Frame | WireClosed:
    """What came: a frame as it is, or what an ASGI event is about."""
    if isinstance(event, bytes | str):
        return event
    if event["type"] == "websocket.receive":
        text: str | None = event.get("text")
        data: Frame = event["bytes"] if text is None else text
        return data
    return _closed(event.get("code", _NO_STATUS), event.get("reason"))


def _closed(code: int, reason: str | None) -> WireClosed:
    """The end as uvicorn reports it.

    A socket that broke is reported as 1005 without a reason, a close frame without a code as 1005
    with an empty one; only the first is abnormal.
    """
    if code == _NO_STATUS and reason is None:
        return WireClosed(CloseCode.ABNORMAL)
    return WireClosed(code, reason or "")


class AsgiWire:
    """Writes at once where the server can, else through an ASGI `send`, without a task of its own.

    uvicorn's `send` only waits while its write buffer is full. So it is started right here, and
    becomes something to await in the rare case that it has to wait.
    """

    __slots__ = ("_send", "abort", "write_now")

    def __init__(self, send: AsgiSend, shortcut: Shortcut) -> None:
        self._send = send
        self.write_now = shortcut.write
        self.abort = shortcut.abort

    def write(self, frame: Frame) -> Awaitable[None] | None:
        if self.write_now(frame):
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


class _NoShortcut:
    """Under another server than ours everything goes through ASGI."""

    def __init__(self, receive: AsgiReceive) -> None:
        self.next_event = receive

    def pushed(self, read: Callable[[Any], Frame | WireClosed]) -> Feed | None:
        return None

    def write(self, frame: Frame) -> bool:
        return False

    def abort(self) -> None:
        """The socket ends when that server sees fit."""

    def abort_in(self, seconds: float) -> None:
        """The same."""
