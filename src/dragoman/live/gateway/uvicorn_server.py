"""How uvicorn has to be set up: what one peer can cost is bounded, and keys stay out of the log."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from dragoman.clock import SystemClock
from dragoman.live.gateway.feeds import FrameQueue, Pushing
from dragoman.live.gateway.frame_reader import (
    BINARY,
    BINARY_HEADS,
    COPIED_BYTES,
    TEXT,
    TEXT_HEADS,
    FrameReader,
    frame_head,
)
from dragoman.live.gateway.http_protocol import HttpProtocol
from dragoman.live.gateway.limits import TokenBucket, TransportLimits
from dragoman.live.gateway.websocket import SHORTCUT_KEY
from dragoman.live.gateway.wire import NO_MESSAGE, CloseCode, Feed, Frame, WireClosed
from dragoman.observability import RedactionFilter

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_REDACTION = RedactionFilter()
_QUERY_STRING = re.compile(r"\?[^\s\"']*")

_OPEN = State.OPEN

_FRAMES_AHEAD = 32
"""So many frames of a peer may wait to be handled before it is read no further."""

_BYTES_AHEAD = 1 << 14
"""And no frame may wait when more than this came at once."""


_BYTES_A_TURN = 1 << 16
"""More than this does not wait for the end of the turn: the transport must see what piles up."""


def uvicorn_options(limits: TransportLimits) -> dict[str, Any]:
    """The keyword arguments for `uvicorn.Config` that the gateway relies on.

    Also silences what uvicorn logs of single connections, because it names keys.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_KEEP_SECRETS)
    return {
        "http": partial(HttpProtocol, limits=limits),
        "ws": partial(SocketProtocol, limits=limits, turn=Turn()),
        "ws_max_size": limits.max_frame_bytes,
        "ws_per_message_deflate": False,
        "access_log": False,
        "log_config": None,
    }


class Turn:
    """A turn of the event loop, at the end of which sockets write what they have gathered."""

    def __init__(self) -> None:
        self.sockets: list[SocketProtocol] = []
        """The first one has `end` called."""

    def end(self) -> None:
        """Have all of them write."""
        sockets, self.sockets = self.sockets, []
        for socket in sockets:
            socket.flush()


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's own protocol, with a shorter way in and out for messages.

    Most of what a scheduler reads and writes are small messages in one frame each. Taken through
    the library's parser, an asyncio queue and ASGI, such a frame costs several times what it costs
    to read it here. And however small the frames are that a peer sends, it gets a bounded share of
    each turn of the event loop. The library is left the handshake, control frames, and what breaks
    the rules.

    It also tells the application how to drop the socket. ASGI knows only polite closing, and that
    waits until the peer has read what was sent before: a peer that never reads would keep its
    socket and its buffers.
    """

    def __init__(self, *args: Any, limits: TransportLimits, turn: Turn, **options: Any) -> None:
        """turn is that of all sockets of the server."""
        super().__init__(*args, **options)
        self._turn = turn
        self.queue: Any = FrameQueue(self.loop)
        self._items = self.queue.items
        """Frames that no handler took as they came."""
        self.message = self._items.append
        self.holds = limits.budget.change
        self._reader = FrameReader(limits.max_frame_bytes, self)
        self._bucket = TokenBucket(limits.messages_per_second, SystemClock())
        """For applications that know only ASGI; the others count by themselves."""
        self._pushing: Pushing | None = None
        self._early = b""
        """What came before the application had accepted the socket."""
        self._will_read_more = False
        self._pong = b""
        """The answer to the last ping, while there is no room to write it."""
        self._is_full = False
        """The peer reads more slowly than it is written to."""
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_lost = False
        self._aborting: asyncio.TimerHandle | None = None

    # --- the way in ------------------------------------------------------------------------------

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:  # there is none for a handshake that was refused
            scope[SHORTCUT_KEY] = self

    def data_received(self, data: bytes) -> None:
        # `state` is a property of the library's; what it reads is pinned by a test.
        if self.conn._state is not _OPEN and not self._is_read_unopened(data):
            return
        reader, items = self._reader, self._items
        reader.feed(data)
        if items:
            self.queue.on_arrival()
        if items or reader.unread:
            self._hold_back(len(data))

    def _is_read_unopened(self, data: bytes) -> bool:
        """Whether to read bytes that come before the socket is open or after its end."""
        match self.conn.state:
            case State.CONNECTING if self.handshake_initiated:
                self._early += data
                self._pause()
                return False
            case State.CONNECTING:
                super().data_received(data)
                return False
            case _:
                # The peer may not know yet, and its own close is still to come.
                self._reader.only_close()
                return True

    def _hold_back(self, size_bytes: int) -> None:
        """See that no more is read than is handled."""
        items = self.queue.items
        if self.conn._state is not _OPEN:
            # It was closed in the middle of what came. No one handles the rest, so none of it may
            # keep the peer's own close from being read: until then the socket stays.
            if self._reader.unread:
                self._read_more_soon()
        elif self._reader.unread:
            self._pause()
            if not items:
                self._read_more_soon()
        elif len(items) > _FRAMES_AHEAD or (items and size_bytes > _BYTES_AHEAD):
            self._pause()

    def _read_on(self) -> None:
        """Everything was handled: go on with the rest of what came, or with what comes."""
        if self._reader.unread:
            self._read_more_soon()
        elif self.read_paused:
            self.read_paused = self.queue.stalled = False
            self.transport.resume_reading()

    def _read_more_soon(self) -> None:
        if not self._will_read_more:
            self._will_read_more = True
            self.loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        self._will_read_more = False
        if self.transport.is_closing():
            return
        if self.conn.state is not State.OPEN:
            self._reader.only_close()
        elif self.queue.items:
            return
        self._reader.go_on()
        self.queue.on_arrival()
        self._hold_back(0)
        if not self.queue.items:
            self._read_on()

    def _pause(self) -> None:
        if not self.read_paused:
            self.read_paused = self.queue.stalled = True
            self.transport.pause_reading()

    def control(self, data: bytes) -> None:
        super().data_received(data)

    def broken(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.state is State.OPEN:
            self.refused(CloseCode.PROTOCOL_ERROR, "a frame breaks the rules")

    def refused(self, code: CloseCode, reason: str) -> None:
        """Close a socket whose peer does what is not allowed, without hearing more of it."""
        self.flush()
        self.conn.fail(code, reason)
        if self.conn.close_sent is not None and not self.close_sent:
            self.handle_parser_exception()
        else:
            self.transport.close()

    def handle_ping(self) -> None:
        # A peer that pings and does not read gets one answer, not a pile of them.
        self._pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self._write_pong()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_full = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_full = False
        self._write_pong()

    def _write_pong(self) -> None:
        pong, self._pong = self._pong, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._aborting is not None:
            self._aborting.cancel()
        self._reader.end()
        super().connection_lost(exc)

    async def next_event(self) -> Any:
        """The next frame, or the ASGI event that the library made of what came."""
        event = await self.queue.get()
        if not self.queue.items:
            self._read_on()
        return event

    def pushed(self, read: Callable[[Any], Frame | WireClosed]) -> Feed:
        """Have everything handled as it comes."""
        self._pushing = Pushing(self.queue, read, self._read_on, self._reader.hand_to)
        return self._pushing.feed

    def must_wait(self, waits: Awaitable[None]) -> None:
        assert self._pushing is not None, "messages that queue up do not wait"
        self._pushing.wait(waits)

    async def receive(self) -> Any:
        """The same for an application that knows only ASGI."""
        event: Any = NO_MESSAGE
        while event is NO_MESSAGE:
            event = await self.next_event()
            if isinstance(event, bytes | str) and not self._bucket.take():
                self.refused(CloseCode.TOO_MANY, "too many messages per second")
        if isinstance(event, str):
            return {"type": "websocket.receive", "text": event}
        if isinstance(event, bytes):
            return {"type": "websocket.receive", "bytes": event}
        return event

    # --- the way out -----------------------------------------------------------------------------

    def write(self, frame: Frame) -> bool:
        """Write a message if the socket is open and has room; False: it must go through ASGI.

        Small messages leave at the end of the turn of the event loop, with all others of that turn:
        waking the process at the other end for each would take longer than writing.
        """
        transport = self.transport
        if (
            self._is_full
            or self.close_sent
            or self.conn._state is not _OPEN
            or transport.is_closing()
        ):
            return False
        first, heads = BINARY, BINARY_HEADS
        if isinstance(frame, str):
            first, heads, frame = TEXT, TEXT_HEADS, frame.encode()
        size = len(frame)
        if size >= COPIED_BYTES:
            self.flush()
            transport.writelines((frame_head(first, size), frame))
            return True
        if not self._unsent:
            turn = self._turn
            if not turn.sockets:
                self.loop.call_soon(turn.end)
            turn.sockets.append(self)
        self._unsent.append(heads[size] + frame)
        self._unsent_bytes += size
        if self._unsent_bytes > _BYTES_A_TURN:
            self.flush()
        return True

    def flush(self) -> None:
        """Hand what was written to the transport."""
        unsent = self._unsent
        if unsent:
            self._unsent, self._unsent_bytes = [], 0
            if not self.close_sent and not self.transport.is_closing():
                self.transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def abort(self) -> None:
        self.transport.abort()

    def abort_in(self, seconds: float) -> None:
        # A timer holds everything of a socket, so one that has ended must leave none.
        if not self._is_lost:
            self._aborting = self.loop.call_later(seconds, self.abort)

    async def send(self, message: Any) -> None:
        self.flush()
        await super().send(message)
        if self._reader.unread and self.conn._state is not _OPEN:
            self._read_more_soon()  # the peer's own close may be in it
        if self._early and self.conn.state is not State.CONNECTING:
            early, self._early = self._early, b""
            self.loop.call_soon(self._read_early, early)

    def _read_early(self, early: bytes) -> None:
        if self.transport.is_closing():
            return
        self.data_received(early)
        if not self.queue.items:
            self._read_on()

    def shutdown(self) -> None:
        self.flush()
        super().shutdown()


class _KeepSecrets(logging.Filter):
    """Lets only warnings and errors of uvicorn through, and those without query strings.

    Below that, uvicorn logs every socket with its `?token=`, and on the debug level each header and
    each frame.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or _tells_nothing(record):
            return False
        # Before the arguments become text: what they hold is told by their types.
        _REDACTION.filter(record)
        record.msg = _QUERY_STRING.sub("", str(record.msg))
        return True


def _tells_nothing(record: logging.LogRecord) -> bool:
    """Told to stop at once, uvicorn calls it an error that it has no task to cancel."""
    return str(record.msg).startswith("Cancel %s running task(s)") and record.args == (0,)


_KEEP_SECRETS = _KeepSecrets()
