"""A model server that answers as the path asks it to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self


class Request(NamedTuple):
    """What the server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class AnsweringServer:
    """Listens on a loopback port; `over` lets hanging requests go."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.over = Event()
        self.connected = Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                content = self.rfile.read(size)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(content) if content else None
                server.requests.append(Request(self.command, self.path, headers, body))
                server.connected.set()
                with suppress(OSError):
                    ANSWERS[self.path.split("?")[0].split("/")[1]](self, server)

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,))

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _send(
    handler: BaseHTTPRequestHandler, status: int, content: bytes = b"", **headers: str
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def _echo(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    answer = {"echo": server.requests[-1].body, "usage": {"tokens": 7, "cost": 0.5}}
    _send(handler, 200, json.dumps(answer).encode())


def _busy(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    _send(handler, 429, b"slow down", Retry_After="3")


def _redirect(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    _send(handler, 307, Location=server.url("echo"))


def _packed(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    _send(handler, 200, gzip.compress(b'{"echo": 1}'), Content_Encoding="gzip")


def _huge(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not server.over.is_set():
        handler.wfile.write(b"x" * 1_000_000)


def _drip(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not server.over.wait(0.02):
        handler.wfile.write(b" ")


def _hang(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    server.over.wait()


def _hang_up(handler: BaseHTTPRequestHandler, server: AnsweringServer) -> None:
    handler.close_connection = True


ANSWERS: dict[str, Callable[[BaseHTTPRequestHandler, AnsweringServer], None]] = {
    "echo": _echo,
    "busy": _busy,
    "redirect": _redirect,
    "packed": _packed,
    "huge": _huge,
    "drip": _drip,
    "hang": _hang,
    "hang_up": _hang_up,
}
