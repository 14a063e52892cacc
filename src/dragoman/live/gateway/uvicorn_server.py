"""How uvicorn has to be set up: sockets can be dropped, and keys stay out of the log."""

from __future__ import annotations

import logging
import re
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from dragoman.live.gateway.websocket import ABORT_KEY, WRITE_KEY
from dragoman.live.gateway.wire import Frame
from dragoman.observability import RedactionFilter

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
_REDACTION = RedactionFilter()
_QUERY_STRING = re.compile(r"\?[^\s\"']*")


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


_TEXT, _BINARY = b"\x81", b"\x82"
"""The first byte of a whole message in one frame."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's own protocol, which also tells the application how to drop the socket.

    ASGI knows only polite closing, and that waits until the peer has read what was sent before. A
    peer that never reads would keep its socket and its buffers.

    And it tells how to write a message at once: the way through ASGI takes half as long again.
    """

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:  # there is none for a handshake that was refused
            scope[ABORT_KEY] = self.transport.abort
            scope[WRITE_KEY] = self.write_now

    def write_now(self, frame: Frame) -> bool:
        """Write a message if the socket is open and has room; False: it must go through ASGI."""
        if (
            not self.writable.is_set()
            or self.close_sent
            or self.conn.state is not State.OPEN
            or self.transport.is_closing()
        ):
            return False
        if isinstance(frame, str):
            data = frame.encode()
            head = _TEXT + _length(len(data))
        else:
            data = frame
            head = _BINARY + _length(len(data))
        self.transport.write(head + data)
        return True


def _length(size_bytes: int) -> bytes:
    """The length of a frame that is not masked, as RFC 6455 writes it."""
    if size_bytes < 126:
        return size_bytes.to_bytes(1, "big")
    if size_bytes < 65536:
        return b"\x7e" + size_bytes.to_bytes(2, "big")
    return b"\x7f" + size_bytes.to_bytes(8, "big")


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
