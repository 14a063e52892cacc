"""Runs snippets, each in a process and namespaces of its own, from the lab's side."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, lru_cache

import msgspec

from dragoman.lab.evaluators.code import child
from dragoman.lab.model import JsonValue

MAX_PRINTED_BYTES = 64 * 1024

_START_SECONDS = 60.0
"""How long the namespaces may take, on a machine that is busy."""
_END_SECONDS = 30.0
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_SHOWN_CHARACTERS = 500


class SandboxLimits(msgspec.Struct, frozen=True):
    """How far a snippet may go."""

    seconds: float
    memory_bytes: int


_CHECK_LIMITS = SandboxLimits(5.0, 256 << 20)


class SnippetFailed(Exception):
    """Raised when a snippet gave no answer; the message says why."""


class CannotShutIn(Exception):
    """Raised when this machine does not give the namespaces that a snippet has to run in."""


class _Answer(msgspec.Struct, frozen=True):
    value: JsonValue = None
    error: str | None = None


async def run_snippet(
    code: str, values: Mapping[str, JsonValue], limits: SandboxLimits, *, only_check: bool = False
) -> JsonValue:
    """What the snippet returns; raises `SnippetFailed`, or `CannotShutIn`.

    With `only_check` it is compiled and not run. Nothing of the snippet is left when this returns
    or raises, also when it is cancelled.
    """
    request = msgspec.json.encode(
        {
            "code": code,
            "values": dict(values),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "libraries": _libraries(),
            "paths": _paths(),
            "only_check": only_check,
        }
    )
    async with _Sandbox() as sandbox:
        return await sandbox.run(request, limits)


class _Sandbox:
    """One process, and the three channels to it."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair()
        answers, answer_end = os.pipe()
        try:
            self._popen = _start(there.fileno(), answer_end)
        except BaseException:
            self._here.close()
            os.close(answers)
            raise
        finally:
            there.close()
            os.close(answer_end)
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._answers = os.fdopen(answers, "rb", 0)
        self._transports: list[asyncio.BaseTransport] = []
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> _Sandbox:
        return self

    async def __aexit__(self, *exception: object) -> None:
        # The program kills what is inside when this side is closed; it needs no signal for that.
        for transport in self._transports:
            transport.close()
        self._here.close()
        self._answers.close()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        await asyncio.shield(asyncio.to_thread(self._wait))

    def _wait(self) -> None:
        """Wait until the program has ended; one that is stuck is killed, with all inside."""
        try:
            self._popen.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    async def run(self, request: bytes, limits: SandboxLimits) -> JsonValue:
        control = await self._control()
        printed = asyncio.create_task(self._printed())
        answered = asyncio.create_task(self._answered())
        try:
            await asyncio.to_thread(self._send, request)
            async with asyncio.timeout(_START_SECONDS):
                told = await control.readline()
            if told != child.BEGUN:
                raise CannotShutIn(_refusal(told, await printed))
            try:
                async with asyncio.timeout(limits.seconds):
                    return await self._outcome(control, printed, answered)
            except TimeoutError:
                raise SnippetFailed(f"it took longer than {limits.seconds:g} s") from None
        except TimeoutError:
            raise SnippetFailed(f"its process did not start within {_START_SECONDS:g} s") from None
        finally:
            for task in (printed, answered):
                task.cancel()
            await asyncio.gather(printed, answered, return_exceptions=True)

    async def _outcome(
        self,
        control: asyncio.StreamReader,
        printed: asyncio.Task[bytes],
        answered: asyncio.Task[bytes],
    ) -> JsonValue:
        """What the snippet returned, once its process has ended; less is believed of it before."""
        waiting: set[asyncio.Task[bytes]] = {printed, answered}
        while not answered.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if printed in done:
                printed.result()  # raises when it printed too much
        answer = answered.result()
        if len(answer) > child.MAX_ANSWER_BYTES:
            raise SnippetFailed(f"it answered with over {child.MAX_ANSWER_BYTES:,} bytes")
        ended, said = await control.readline(), await printed
        if not answer:
            raise SnippetFailed(f"its process ended without an answer{_ended(ended)}{_last(said)}")
        try:
            found = msgspec.json.decode(answer, type=_Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise SnippetFailed("it wrote into its answer, which is no JSON now") from None
        if found.error is not None:
            raise SnippetFailed(f"{found.error}{_last(said)}")
        return found.value

    def _send(self, request: bytes) -> None:
        stdin = self._popen.stdin
        assert stdin is not None
        with suppress(OSError):  # it has ended: why, it has told
            stdin.write(request)
        with suppress(OSError):
            stdin.close()

    async def _control(self) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(sock=self._here)
        self._writer = writer  # held: a writer that is collected closes its socket
        self._transports.append(writer.transport)
        return reader

    async def _answered(self) -> bytes:
        """The whole answer, or its beginning when it is too long."""
        reader = await self._reader(self._answers)
        found = b""
        while len(found) <= child.MAX_ANSWER_BYTES and (piece := await reader.read(65_536)):
            found += piece
        return found

    async def _printed(self) -> bytes:
        """What the snippet prints; raises when it is too much."""
        reader = await self._reader(self._popen.stdout)
        found = b""
        while piece := await reader.read(65_536):
            found += piece
            if len(found) > MAX_PRINTED_BYTES:
                raise SnippetFailed(f"it printed more than {MAX_PRINTED_BYTES:,} bytes")
        return found

    async def _reader(self, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader


@lru_cache(maxsize=1_000)
def check_snippet(code: str) -> None:
    """Raise `SnippetFailed` for what is no Python, `CannotShutIn` where no snippet can run.

    The lab's own process does not compile it: there are texts that leave the interpreter that
    fails to compile them in disorder.
    """
    # In a thread of its own: the caller may be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        checking = run_snippet(code, {}, _CHECK_LIMITS, only_check=True)
        thread.submit(asyncio.run, checking).result()


def _start(control: int, answers: int) -> subprocess.Popen[bytes]:
    if sys.platform != "linux":
        raise CannotShutIn(f"namespaces are a part of Linux, and this is {sys.platform}")
    if not sys.executable:
        raise CannotShutIn("this program does not know where its Python is")
    return subprocess.Popen(
        # Isolated and without site-packages: no variable, folder or .pth file is used. The last
        # argument is for people who look at the list of processes: whose it is.
        [
            *(sys.executable, "-I", "-S", "-B", child.__file__),
            *(str(control), str(answers), f"of-{os.getpid()}"),
        ],
        pass_fds=(control, answers),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={},
        cwd="/",
        bufsize=0,
        # Ctrl-C is for the lab, which then decides.
        start_new_session=True,
    )


@cache
def _libraries() -> list[str]:
    """The folders that a snippet can import from, and what their modules are linked with."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return list(dict.fromkeys(p for p in (*own, *_SYSTEM_LIBRARIES) if os.path.isdir(p)))


@cache
def _paths() -> list[str]:
    standard = sysconfig.get_path("stdlib")
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return list(dict.fromkeys((standard, os.path.join(standard, "lib-dynload"), *installed)))


def _refusal(told: bytes, printed: bytes) -> str:
    if told.startswith(child.REFUSED):
        return told.removeprefix(child.REFUSED).decode(errors="replace").strip()
    return f"the process ended before it began{_last(printed)}"


def _ended(told: bytes) -> str:
    try:
        number = int(told.removeprefix(child.ENDED)) - 128
        return f" ({signal.Signals(number).name})" if number > 0 else ""
    except ValueError:
        return ""


def _last(printed: bytes) -> str:
    """The end of what was printed, as a message quotes it."""
    text = printed.decode(errors="replace").strip()
    return f"; it printed: …{text[-_SHOWN_CHARACTERS:]}" if text else ""
