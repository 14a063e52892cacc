"""How uvicorn has to be set up so that sockets can be dropped and keys stay out of the log."""

from __future__ import annotations

import logging
import re
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dragoman.live.gateway.websocket import ABORT_KEY

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
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


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's own protocol, which also tells the application how to drop the socket.

    ASGI knows only polite closing, and that waits until the peer has read what was sent before. A
    peer that never reads would keep its socket and its buffers.
    """

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:  # there is none for a handshake that was refused
            scope[ABORT_KEY] = self.transport.abort


class _KeepSecrets(logging.Filter):
    """Lets only warnings and errors of uvicorn through, and those without query strings.

    Below that, uvicorn logs every socket with its `?token=`, and on the debug level each header and
    each frame.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return False
        record.msg = _QUERY_STRING.sub("", record.getMessage())
        record.args = ()
        return True


_KEEP_SECRETS = _KeepSecrets()
