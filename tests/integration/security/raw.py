"""Sockets without manners: bytes go out as the test wants them, and what comes back is read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.integration.serve.server_process import PATIENCE_SECONDS
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

MASK = bytes(4)
PING = bytes((0x89, 0x80)) + MASK
FIRST_FRAGMENT = bytes((0x01, 0x80)) + MASK
MIDDLE_FRAGMENT = bytes((0x00, 0x80)) + MASK


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    """A TCP connection to the server, on which nothing was said yet."""
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS) as raw:
        yield raw


def request(*lines: str, method: str = "GET", path: str = "/healthz", body: str = "") -> bytes:
    """A request with just these header lines."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", body]).encode()


def upgrade(raw: socket.socket, path: str, *lines: str, host: str = "localhost") -> bytes:
    """Ask for a WebSocket; the answer's head."""
    raw.sendall(
        request(
            f"Host: {host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
            *lines,
            path=path,
        )
    )
    head = b""
    while b"\r\n\r\n" not in head:
        got = raw.recv(1)
        if not got:
            break
        head += got
    return head


def send_all(raw: socket.socket, data: bytes) -> None:
    """Send everything, unless the server hangs up meanwhile."""
    with suppress(ConnectionError, BrokenPipeError):
        raw.sendall(data)


def everything(raw: socket.socket) -> bytes:
    """What the server says until it hangs up."""
    got = b""
    with suppress(ConnectionError):
        while piece := raw.recv(1 << 16):
            got += piece
    return got


def closed_with(raw: socket.socket) -> tuple[int, str] | None:
    """The code and the reason of the close frame that the server sends; None: it just hangs up."""
    reader = StreamReader()
    while True:
        parse = Frame.parse(reader.read_exact, mask=False)
        try:
            next(parse)
            while True:
                piece = b""
                with suppress(ConnectionError):
                    piece = raw.recv(1 << 16)
                if not piece:
                    return None
                reader.feed_data(piece)
                next(parse)
        except StopIteration as done:
            frame: Frame = done.value
            if frame.opcode is Opcode.CLOSE:
                content = bytes(frame.data)
                return int.from_bytes(content[:2], "big"), content[2:].decode()
