"""Child processes of a benchmark: started, watched for the CPU time they use, stopped.

Needs nothing but the standard library, because peers import it in environments of their own.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12
"""Where the times are in /proc/PID/stat, counted from after the command's name."""

GOODBYE_SECONDS = 10


def cpu_seconds(*pids: int) -> float:
    """The CPU time that processes have used so far; one that is gone counts nothing."""
    ticks = 0
    for pid in pids:
        try:
            shown = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        # The name is in parentheses and may hold anything, also a parenthesis.
        fields = shown.rpartition(")")[2].split()
        ticks += int(fields[_UTIME]) + int(fields[_STIME])
    return ticks / _TICKS_PER_SECOND


def waited_seconds(*pids: int) -> float:
    """How long processes were ready to run and had no core; one that is gone counts nothing."""
    waited_ns = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                waited_ns += int(thread.read_text().split()[1])
            except OSError:
                continue
    return waited_ns / 1e9


@contextmanager
def first_in_line(*pids: int) -> Iterator[bool]:
    """Processes that get a core before all others, as if each had its own; False: not allowed."""
    threads = [int(path.name) for pid in pids for path in Path(f"/proc/{pid}/task").iterdir()]
    try:
        for thread in threads:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    except (PermissionError, ProcessLookupError):
        yield False
        return
    try:
        yield True
    finally:
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


def family(pid: int) -> list[int]:
    """A process and everything it started, and they started, that still runs."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def free_port() -> int:
    """A port that no program listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that lives as long as the block; its stdout can be read unless a log takes it."""
    with open(log or os.devnull, "a") as rest:
        process = subprocess.Popen(
            command,
            stdout=rest if log is not None else subprocess.PIPE,
            stderr=rest if log is not None else None,
            env={**os.environ, **(env or {})},
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(GOODBYE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
