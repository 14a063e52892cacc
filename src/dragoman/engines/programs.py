"""Other programs that do a stage's work: run with a limit on everything, and ended for sure."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from shutil import which
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, TypeVar

import msgspec

from dragoman.sdk import JobFailed, ModelMissing

T = TypeVar("T")

MAX_OUTPUT_BYTES = 64 << 20
_MAX_COMPLAINT_BYTES = 16 << 10
_MAX_COMPLAINT_CHARACTERS = 300
_PIECE_BYTES = 64 << 10

PROGRAM_FAILED = "ENGINE_FAILED"
"""The code of a job on which a stage's program failed; another node is asked."""


class ProgramOutput(msgspec.Struct, frozen=True):
    """What a program wrote before it ended well."""

    stdout: bytes
    stderr: bytes


async def run_program(
    command: Sequence[str],
    *,
    service_id: str,
    timeout_seconds: float,
    stdin: bytes | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> ProgramOutput:
    """Run a program to its end.

    ModelMissing when it cannot be started; JobFailed when it takes too long, writes too much or
    ends with an error. Whatever happens, also when the job is cancelled, neither it nor a process
    that it started is left running.
    """
    async with AsyncExitStack() as stack:
        out, err = [await _uninterrupted(_pipe(stack)) for _ in range(2)]
        try:
            process = await start_process(
                *command,
                stdin=DEVNULL if stdin is None else stack.enter_context(_file_of(stdin)),
                stdout=out.write_end,
                stderr=err.write_end,
                cwd=cwd,
                env=None if environment is None else {**os.environ, **environment},
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ModelMissing(service_id, f"{command[0]} cannot be started ({reason})") from None
        stack.push_async_callback(end_process, process)
        for pipe in (out, err):
            pipe.write_end.close()
        return await _finished(command[0], process, out, err, timeout_seconds, max_output_bytes)


async def _finished(
    name: str,
    process: Process,
    out: _Pipe,
    err: _Pipe,
    timeout_seconds: float,
    max_output_bytes: int,
) -> ProgramOutput:
    try:
        async with asyncio.timeout(timeout_seconds):
            stdout, stderr = await asyncio.gather(
                _read(out.reader, max_output_bytes),
                _read(err.reader, _MAX_COMPLAINT_BYTES, keep_reading=True),
            )
            code = await process.wait()
    except TimeoutError:
        raise JobFailed(
            PROGRAM_FAILED, f"{name} did not end within {timeout_seconds:.1f} seconds."
        ) from None
    except _TooMuch:
        raise JobFailed(
            PROGRAM_FAILED, f"{name} wrote more than {max_output_bytes:,} bytes."
        ) from None
    if code != 0:
        how = f"ended with {code}" if code > 0 else f"was ended by {_signal_name(-code)}"
        raise JobFailed(PROGRAM_FAILED, f"{name} {how}{complaint(stderr)}.")
    return ProgramOutput(stdout, stderr)


def complaint(stderr: bytes) -> str:
    """The last line of what a program complained about, for a message; empty if there is none."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:_MAX_COMPLAINT_CHARACTERS].rstrip('.')}" if lines else ""


def program_found(name: str) -> bool:
    """Whether there is such a program on this machine."""
    return which(name) is not None


class _TooMuch(Exception):
    """Raised when a program writes more than is read."""


class _Pipe(NamedTuple):
    """What a program writes into, and where it is read."""

    reader: asyncio.StreamReader
    write_end: IO[bytes]


async def _uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Do a short piece of work to its end, also when the task is cancelled meanwhile.

    A pipe that is given up in the middle of being connected would stay open.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


async def _pipe(stack: AsyncExitStack) -> _Pipe:
    """A pipe of the system: uvloop would make sockets, which cannot be opened as /dev/stdout."""
    read_fd, write_fd = os.pipe()
    write_end = stack.enter_context(os.fdopen(write_fd, "wb", buffering=0))
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", buffering=0)
    )
    stack.callback(transport.close)
    return _Pipe(reader, write_end)


def _file_of(content: bytes) -> IO[bytes]:
    """A file without a name, as standard input: a program need not read all of it."""
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


async def _read(
    stream: asyncio.StreamReader, most_bytes: int, *, keep_reading: bool = False
) -> bytes:
    """All that is written; of what is over the limit, the end is kept or the program is ended."""
    kept = bytearray()
    while piece := await stream.read(_PIECE_BYTES):
        kept += piece
        if len(kept) > most_bytes:
            if not keep_reading:
                raise _TooMuch
            del kept[:-most_bytes]
    return bytes(kept)


async def start_process(*command: str, **options: Any) -> Process:
    """Start a process in a group of its own, which can be ended as a whole.

    A task that is cancelled while the process starts ends the process; asyncio would leave those
    behind that it has started in the meantime.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await end_process(await starting)
        raise


async def end_process(process: Process) -> None:
    """End a process of `start_process`, and those that it started."""
    # Also after it ended by itself: a process that it started may hold the pipes.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
