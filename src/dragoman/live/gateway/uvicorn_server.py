"""How uvicorn has to be set up: sockets can be dropped, and keys stay out of the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from dragoman.live.gateway.arrivals import Arrivals
from dragoman.live.gateway.closing import Closed
from dragoman.live.gateway.feeds import Pushing
from dragoman.live.gateway.plain_frames import PlainFrames, plain_frame
from dragoman.live.gateway.websocket import SHORTCUT_KEY
from dragoman.live.gateway.wire import Feed, Frame
from dragoman.observability import RedactionFilter

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_REDACTION = RedactionFilter()
_QUERY_STRING = re.compile(r"\?[^\s\"']*")

_FRAMES_AHEAD = 32
"""So many frames of a peer may wait to be handled before it is read no further."""

_BYTES_A_TURN = 1 << 16
"""More than this does not wait for the end of the turn: the transport must see what piles up."""


def uvicorn_options(*, max_frame_bytes: int) -> dict[str, Any]:
    """The keyword arguments for `uvicorn.Config` that the gateway relies on.

    Also silences what uvicorn logs of single connections, because it names keys.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_KEEP_SECRETS)
    return {
        "ws": SocketProtocol,
        "ws_max_size": max_frame_bytes,
        "ws_per_message_deflate": False,
        "access_log": False,
        "log_config": None,
    }


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's own protocol, with a shorter way in and out for plain messages.

    Most of what a scheduler reads and writes are small messages in one frame each. Taken through
    the library's parser, an asyncio queue and ASGI, such a frame costs several times what it costs
    to read it here. Everything else goes the library's way: the handshake, control frames,
    fragments, and whatever breaks the rules.

    And it tells the application how to drop the socket. ASGI knows only polite closing, and that
    waits until the peer has read what was sent before: a peer that never reads would keep its
    socket and its buffers.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue: Any = Arrivals(self.loop)
        self._reader = PlainFrames(
            self.config.ws_max_size, self.queue.items.append, super().data_received
        )
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0

    # --- the way in ------------------------------------------------------------------------------

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:  # there is none for a handshake that was refused
            scope[SHORTCUT_KEY] = self

    def data_received(self, data: bytes) -> None:
        if self.conn.state is not State.OPEN:
            super().data_received(data)
            return
        self._reader.feed(data)
        self.queue.on_arrival()
        if len(self.queue.items) > _FRAMES_AHEAD and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    async def next_event(self) -> Any:
        """The next frame, or the ASGI event that the library made of what came."""
        event = await self.queue.get()
        if not self.queue.items:
            self._read_on()
        return event

    def pushed(self, read: Callable[[Any], Frame | Closed]) -> Feed:
        """Have everything handled as it comes."""
        return Pushing(self.queue, read, self._read_on).feed

    def _read_on(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    async def receive(self) -> Any:
        """The same for an application that knows only ASGI."""
        event = await self.next_event()
        if isinstance(event, str):
            return {"type": "websocket.receive", "text": event}
        if isinstance(event, bytes):
            return {"type": "websocket.receive", "bytes": event}
        return event

    # --- the way out -----------------------------------------------------------------------------

    def write(self, frame: Frame) -> bool:
        """Write a message if the socket is open and has room; False: it must go through ASGI.

        It leaves at the end of the turn of the event loop, with all others of that turn: waking
        the process at the other end for each would take longer than writing.
        """
        if (
            not self.writable.is_set()
            or self.close_sent
            or self.conn.state is not State.OPEN
            or self.transport.is_closing()
        ):
            return False
        data = plain_frame(frame)
        if not self._unsent:
            self.loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _BYTES_A_TURN:
            self._flush()
        return True

    def abort(self) -> None:
        self.transport.abort()

    async def send(self, message: Any) -> None:
        self._flush()
        await super().send(message)

    def shutdown(self) -> None:
        self._flush()
        super().shutdown()

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and not self.close_sent and not self.transport.is_closing():
            self.transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))


class _KeepSecrets(logging.Filter):
    """Lets only warnings and errors of uvicorn through, and those without query strings.

    Below that, uvicorn logs every socket with its `?token=`, and on the debug level each header and
    each frame.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return False
        # Before the arguments become text: what they hold is told by their types.
        _REDACTION.filter(record)
        record.msg = _QUERY_STRING.sub("", str(record.msg))
        return True


_KEEP_SECRETS = _KeepSecrets()
