"""Looks into a server, or into a caller of it, while a load is on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.full_job.load import Address, JobLoad, SpeechLoad, drive
from benchmarks.full_job.servers import dragoman_server, served
from benchmarks.processes import running

WARM_UP_SECONDS = 1.0
_LEAD_SECONDS = 1.5
"""For the driver to connect its nodes and sessions, before the warm-up."""
_PATIENCE_SECONDS = 30.0
LEAST_JOBS = 200
LEAST_CHUNKS = 1_000
"""Of fewer, what the server does by the clock is too large a share."""
_LOOKS = 4

Role = Literal["node", "client"]

Place = tuple[str, str]
"""Module and function."""


class Found(msgspec.Struct):
    """What the server wrote down."""

    calls: list[tuple[Place, int, bool]]
    """Of each function: how often it was called, or resumed where it is a coroutine."""
    stacks: list[tuple[list[Place], int]]


class Calls(msgspec.Struct):
    """Calls of Python functions for each job, or for each chunk."""

    things: int
    """How many jobs or chunks there were."""
    each: dict[str, float]
    coroutines: float

    @property
    def total(self) -> float:
        return sum(self.each.values())


class CallerCalls(msgspec.Struct):
    """What a job costs a node or a client of the SDK."""

    calls: Calls
    cpu_us: float


def calls_of_jobs(seconds: float, *, audio_bytes: int = 0, binary: bool = True) -> Calls:
    """What a whole job costs in calls, under a load that keeps the server busy."""

    def look(seconds: float) -> Calls:
        with _looked_into() as (server, out):
            load = JobLoad(server, binary, audio_bytes, seconds + 1.0, WARM_UP_SECONDS)
            found = _look(server, out, load, signal.SIGUSR1, seconds)
        return _calls(found, "JobDriver._tell")

    return _of_enough(look, seconds, LEAST_JOBS)


def calls_of_chunks(seconds: float, *, speakers: int = 40, chunk_ms: int = 20) -> Calls:
    """What a chunk of speech costs in calls, its share of the jobs included."""

    def look(seconds: float) -> Calls:
        with _looked_into() as (server, out):
            load = SpeechLoad(server, True, speakers, chunk_ms, seconds + 1.0, WARM_UP_SECONDS)
            found = _look(server, out, load, signal.SIGUSR1, seconds)
        return _calls(found, "SpeechInput.audio")

    return _of_enough(look, seconds, LEAST_CHUNKS)


def _of_enough(look: Callable[[float], Calls], seconds: float, least: int) -> Calls:
    """Look for longer on a machine so busy that little was done meanwhile."""
    for _ in range(_LOOKS - 1):
        found = look(seconds)
        if found.things >= least:
            return found
        seconds *= 2
    return look(seconds)


def calls_of_caller(role: Role, seconds: float) -> CallerCalls:
    """What a job costs the node, or the client, that uses the SDK."""
    other: Role = "client" if role == "node" else "node"
    with dragoman_server() as server, tempfile.TemporaryDirectory() as folder:
        url, out = f"ws://127.0.0.1:{server.port}", Path(folder) / "found.json"
        with ExitStack() as stack:
            started = {}
            # Clients are refused while there is no node.
            for name in ("node", "client"):
                found_in = out if name == role else Path(folder) / f"{other}.json"
                command = [sys.executable, "-m", "benchmarks.profiling.callers"]
                process = stack.enter_context(running([*command, name, url, str(found_in)]))
                _wait_for(process, "ready")
                started[name] = process
            process = started[role]
            time.sleep(WARM_UP_SECONDS)
            before = _jobs_and_cpu(process)
            time.sleep(seconds)
            after = _jobs_and_cpu(process)
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(seconds)
            os.kill(process.pid, signal.SIGALRM)
            calls = _calls(_found(out), "Program.count_job")
    own = {name: count for name, count in calls.each.items() if "benchmarks." not in name}
    jobs, cpu_seconds = after[0] - before[0], after[1] - before[1]
    calls = msgspec.structs.replace(calls, each=own)
    return CallerCalls(calls, cpu_seconds * 1e6 / max(1, jobs))


def _wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    while word not in (line := process.stdout.readline()):
        if not line:
            raise RuntimeError(f"{process.args!r} ended before it was ready")


def _jobs_and_cpu(process: subprocess.Popen[str]) -> tuple[int, float]:
    assert process.stdout is not None
    os.kill(process.pid, signal.SIGHUP)
    while True:
        words = process.stdout.readline().split()
        if len(words) == 2:
            return int(words[0]), float(words[1])


def stacks_of_jobs(seconds: float, *, audio_bytes: int = 0) -> list[tuple[list[str], int]]:
    """Where the server's CPU time goes, as samples of its stack."""
    with _looked_into() as (server, out):
        load = JobLoad(server, True, audio_bytes, seconds + 1.0, WARM_UP_SECONDS)
        found = _look(server, out, load, signal.SIGUSR2, seconds)
    return [([".".join(place) for place in stack], count) for stack, count in found.stacks]


def _calls(found: Found, counted: str) -> Calls:
    things = sum(count for (_, function), count, _ in found.calls if function == counted)
    each: dict[str, float] = {}
    for place, count, _ in found.calls:
        name = ".".join(place)
        each[name] = each.get(name, 0.0) + count / max(1, things)
    coroutines = sum(count for _, count, is_coroutine in found.calls if is_coroutine)
    return Calls(things, each, coroutines / max(1, things))


@contextmanager
def _looked_into() -> Iterator[tuple[Address, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, "-m", "benchmarks.profiling.served", str(out), "serve"]
        flags = ["--port", "0", "--data-dir", f"{folder}/data", "--log-level", "error"]
        root = str(Path(__file__).resolve().parents[2])
        with served([*command, *flags], DRAGOMAN_SERVER__DRAIN_SECONDS="0", PYTHONPATH=root) as it:
            yield it, out


def _look(
    server: Address, out: Path, load: JobLoad | SpeechLoad, what: signal.Signals, seconds: float
) -> Found:
    begin = _LEAD_SECONDS + WARM_UP_SECONDS
    timers = [
        threading.Timer(begin, os.kill, (server.pid, what)),
        threading.Timer(begin + seconds, os.kill, (server.pid, signal.SIGALRM)),
    ]
    for timer in timers:
        timer.start()
    load = msgspec.structs.replace(load, seconds=load.seconds + _LEAD_SECONDS)
    try:
        drive(load)
    finally:
        for timer in timers:
            timer.join()
    return _found(out)


def _found(out: Path) -> Found:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not out.exists():
        if time.monotonic() > until:
            raise RuntimeError("the process did not write down what it found")
        time.sleep(0.05)
    return msgspec.json.decode(out.read_bytes(), type=Found)
