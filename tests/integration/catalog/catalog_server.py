"""A catalog server that answers as the test wants, down to not answering at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

SERVICES: list[dict[str, Any]] = [
    {"service_id": "nmt-zh-en", "type": "nmt", "version": "1.2", "name": "Translator"},
    {"service_id": "tts-en", "type": "tts", "version": "3", "name": None},
]


def catalog(services: Iterable[dict[str, Any]] = SERVICES) -> bytes:
    return json.dumps({"services": list(services)}).encode()


class CatalogServer:
    """Listens on a port of its own, which it keeps while it is down."""

    def __init__(self) -> None:
        self.mode = "well"
        self.asked_at: list[float] = []
        self._port = 0
        self._http: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None
        self.over = Event()
        """Set when hanging requests may go."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/catalog"

    def up(self) -> None:
        """Listen, if it does not yet."""
        if self._http is not None:
            return
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked_at.append(monotonic())
                with suppress(OSError):
                    MODES[server.mode](self, server)

            def log_message(self, *_: object) -> None:
                pass

        self.over.clear()
        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._http.daemon_threads = True
        self._port = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def down(self) -> None:
        """Stop listening."""
        self.over.set()
        if self._http is None or self._thread is None:
            return
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http = None

    def become(self, mode: str) -> None:
        """Answer otherwise from now on; ``down`` is a way to answer, too."""
        if mode == "down":
            self.down()
            return
        self.mode = mode
        self.over.set()
        self.over = Event()
        self.up()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()


def _answer(to: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
    to.send_response(status)
    to.send_header("Content-Type", "application/json")
    to.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        to.send_header(name.replace("_", "-"), value)
    to.end_headers()
    to.wfile.write(body)


def _hang(to: BaseHTTPRequestHandler, server: CatalogServer) -> None:
    server.over.wait(60)
    to.close_connection = True


def _drip(to: BaseHTTPRequestHandler, server: CatalogServer) -> None:
    """Never silent for long, and never done."""
    over = server.over
    to.send_response(200)
    to.end_headers()
    while not over.wait(0.05):
        to.wfile.write(b" ")
        to.wfile.flush()


def _endless(to: BaseHTTPRequestHandler, _: CatalogServer) -> None:
    """Ten megabytes that are not announced."""
    to.send_response(200)
    to.end_headers()
    for _piece in range(160):
        to.wfile.write(b" " * 65_536)


Mode = Callable[[BaseHTTPRequestHandler, CatalogServer], None]

MODES: dict[str, Mode] = {
    "well": lambda to, _: _answer(to, catalog()),
    "hanging": _hang,
    "dripping": _drip,
    "garbage": lambda to, _: _answer(to, b"<html>It works!</html>"),
    "another form": lambda to, _: _answer(to, b'{"items": []}'),
    "redirecting": lambda to, _: _answer(to, b"", status=302, Location="/elsewhere"),
    "failing": lambda to, _: _answer(to, b"{}", status=503),
    "10 MB": lambda to, _: _answer(to, b" " * 10_000_000 + catalog()),
    "endless": _endless,
    "compressed": lambda to, _: _answer(to, gzip.compress(catalog()), Content_Encoding="gzip"),
}
