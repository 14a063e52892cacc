"""A cable between a node and the server, which a test may cut and mend."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 65536


class Wire:
    """Listens on a port of its own and passes everything on, both ways, until it is cut."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname, parts.port)
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._carrying: list[Thread] = []
        self._listen(port=0)
        self.url = f"ws://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Break what is connected, without a goodbye, and refuse new connections."""
        _hang_up(self._listening)
        self._accepting.join()
        self._listening.close()
        with self._lock:
            for end in self._open:
                _hang_up(end)

    def mend(self) -> None:
        """Let callers in again."""
        self._listen(self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut()
        for thread in self._carrying:
            thread.join()

    def _listen(self, port: int) -> None:
        self._listening = socket.create_server(("127.0.0.1", port))
        self._port: int = self._listening.getsockname()[1]
        self._accepting = Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):  # hung up: the wire is cut
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._server)
                with self._lock:
                    self._open |= {near, far}
                both = Thread(target=self._carry, args=(near, far))
                self._carrying.append(both)
                both.start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Carry bytes both ways until either end is gone."""
        back = Thread(target=_pump, args=(far, near))
        back.start()
        _pump(near, far)
        back.join()
        with self._lock:
            self._open -= {near, far}
            near.close()
            far.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            sink.sendall(chunk)
    _hang_up(source)
    _hang_up(sink)


def _hang_up(end: socket.socket) -> None:
    """End a connection so that its reader notices."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
