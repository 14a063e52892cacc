"""One process of the lab's, from this side."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys

import msgspec

from dragoman.lab.evaluators.processes import child
from dragoman.lab.evaluators.processes.child import (
    LENGTH_BYTES,
    ChildAnswer,
    content_length,
)


class ProcessEnded(Exception):
    """Raised when the process ended while it worked on a call."""


class Process:
    """A process that answers one call at a time."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._popen = popen
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> Process:
        """A fresh process.

        Not one of multiprocessing's: those run the user's program again, and a script without
        `if __name__ == "__main__"` would start itself.
        """
        here, there = socket.socketpair()
        with there:
            popen = subprocess.Popen(  # noqa: ASYNC220  # returns as soon as it is started
                [sys.executable, child.__file__, str(there.fileno()), json.dumps(sys.path)],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                # What a function prints is for people; standard output may be read by programs.
                stdout=sys.__stderr__.fileno() if sys.__stderr__ else None,
                # Ctrl-C is for the lab, which then decides; it reaches this side only.
                start_new_session=True,
            )
        try:
            reader, writer = await asyncio.open_connection(sock=here)
        except BaseException:
            here.close()
            popen.kill()
            popen.wait()
            raise
        return cls(popen, reader, writer)

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    async def ask(self, call: bytes) -> ChildAnswer:
        """The answer to a framed call; `ProcessEnded` when the process does not survive it."""
        try:
            self._writer.write(call)
            await self._writer.drain()
            head = await self._reader.readexactly(LENGTH_BYTES)
            content = await self._reader.readexactly(content_length(head))
        except (asyncio.IncompleteReadError, OSError):
            raise ProcessEnded(f"exit status {await self.stop()}") from None
        return msgspec.msgpack.decode(content, type=ChildAnswer)

    def kill(self) -> None:
        """End it now; does nothing when it has ended."""
        self._popen.kill()
        self._writer.close()

    async def stop(self) -> int:
        """End it, wait until it is gone, and return its exit status."""
        self.kill()
        return await asyncio.to_thread(self._popen.wait)
