"""A cable with a switch: everything passes through, until it is cut, slowed down or held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

_CHUNK_BYTES = 65536

Watcher = Callable[[bytes], None]


class Proxy:
    """Listens on a port of its own, the same all its life, and passes on to wherever it is led."""

    def __init__(self) -> None:
        self.port = 0
        self.target_port: int | None = None
        """Where the bytes go; None: nowhere."""
        self.delay_seconds = 0.0
        """How much later each piece arrives, in both directions."""
        self.on_request: Watcher | None = None
        """Sees each piece on its way to the target, before it is passed on; it may hold it."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        await self.cut()

    async def cut(self) -> None:
        """Break what is connected, without a goodbye, and refuse new connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.break_all()

    async def mend(self) -> None:
        """Let callers in again."""
        if self._server is None:
            await self.open()

    async def break_all(self) -> None:
        """Break what is connected; new connections are let in."""
        for task in list(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def hold(self) -> None:
        """Let no byte through, either way; connections stay."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def _accepted(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, near))
        self._carrying.add(task)
        task.add_done_callback(partial(self._ended, near))

    def _ended(self, near: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._carrying.discard(task)
        if task.cancelled():
            near.transport.abort()
        else:
            near.close()

    async def _carry(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        if self.target_port is None:
            return
        try:
            answers, far = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            return
        there = asyncio.create_task(self._pump(reader, far, self._seen))
        back = asyncio.create_task(self._pump(answers, near, None))
        try:
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            far.transport.abort()
            raise
        finally:
            there.cancel()
            back.cancel()
            far.close()  # before anything is awaited: a cut may come in between
            await asyncio.gather(there, back, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, watch: Watcher | None
    ) -> None:
        with suppress(OSError):
            while piece := await source.read(_CHUNK_BYTES):
                if watch is not None:
                    watch(piece)
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                await self._flowing.wait()
                sink.write(piece)
                await sink.drain()

    def _seen(self, piece: bytes) -> None:
        if self.on_request is not None:
            self.on_request(piece)
