"""A WebSocket client that costs next to nothing, so that the driver keeps ahead of the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_FINAL = 0x80
_MASKED = 0x80
_NO_MASK = bytes(4)
"""A mask like any other to the server, which undoes it byte by byte; here it spares the work."""

OnFrame = Callable[[bytes], None]


class Socket(asyncio.Protocol):
    """One open socket: frames go out with `send` and come in through `on_frame`."""

    def __init__(self, path: str, sub: str | None, *, binary: bool) -> None:
        self.on_frame: OnFrame = _ignore
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed_because: str | None = None
        self._path = path
        self._sub = sub
        self._opcode = _FINAL | (_BINARY if binary else _TEXT)
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def send(self, payload: bytes) -> None:
        self._write(self._opcode, payload)

    def stop_reading(self) -> None:
        """Be a client that never reads again, and has little room for what comes."""
        assert self._transport is not None
        own = self._transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- what the event loop calls ---------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        lines = [
            f"GET {self._path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version: 13",
        ]
        if self._sub is not None:
            lines.append(f"Sec-WebSocket-Protocol: {self._sub}")
        transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.opened.done() and not self._read_handshake():
            return
        self._read_frames()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed_because = self.closed_because or f"the connection was lost ({error})"
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(self.closed_because))

    # --- inside ----------------------------------------------------------------------------------

    def _write(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = bytes((opcode, _MASKED | size))
        elif size < 65536:
            head = bytes((opcode, _MASKED | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((opcode, _MASKED | 127)) + size.to_bytes(8, "big")
        if self._transport is not None:
            self._transport.write(head + _NO_MASK + payload)

    def _read_handshake(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        answer = bytes(self._buffer[:end]).decode("latin-1")
        del self._buffer[: end + 4]
        if " 101 " in answer.split("\r\n", 1)[0]:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectionError(answer))
        return True

    def _read_frames(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 2:
            opcode, size, start = buffer[at] & 0xF, buffer[at + 1], at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                start += width
                if len(buffer) < start:
                    break
                size = int.from_bytes(buffer[start - width : start], "big")
            if len(buffer) < start + size:
                break
            at = start + size
            self._frame(opcode, bytes(buffer[start:at]))
        del buffer[:at]

    def _frame(self, opcode: int, payload: bytes) -> None:
        if opcode <= _BINARY:
            self.on_frame(payload)
        elif opcode == _PING:
            self._write(_FINAL | _PONG, payload)
        elif opcode == _CLOSE:
            code = int.from_bytes(payload[:2], "big")
            self.closed_because = f"closed {code} {payload[2:].decode(errors='replace')}"


async def connect(port: int, path: str, sub: str | None, *, binary: bool) -> Socket:
    """Open a socket to this machine."""
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(
        lambda: Socket(path, sub, binary=binary), "127.0.0.1", port
    )
    await made.opened
    return made


def _ignore(payload: bytes) -> None:
    """Frames are dropped until the owner says what to do with them."""
