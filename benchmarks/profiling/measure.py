"""Looks into a server while a load is on it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.full_job.load import Address, JobLoad, SpeechLoad, drive
from benchmarks.full_job.servers import served

WARM_UP_SECONDS = 1.0
_LEAD_SECONDS = 1.5
"""For the driver to connect its nodes and sessions, before the warm-up."""
_PATIENCE_SECONDS = 30.0

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


def calls_of_jobs(seconds: float, *, audio_bytes: int = 0, binary: bool = True) -> Calls:
    """What a whole job costs in calls, under a load that keeps the server busy."""
    with _looked_into() as (server, out):
        load = JobLoad(server, binary, audio_bytes, seconds + 1.0, WARM_UP_SECONDS)
        found = _look(server, out, load, signal.SIGUSR1, seconds)
    return _calls(found, "JobDriver._tell")


def calls_of_chunks(seconds: float, *, speakers: int = 40, chunk_ms: int = 20) -> Calls:
    """What a chunk of speech costs in calls, its share of the jobs included."""
    with _looked_into() as (server, out):
        load = SpeechLoad(server, True, speakers, chunk_ms, seconds + 1.0, WARM_UP_SECONDS)
        found = _look(server, out, load, signal.SIGUSR1, seconds)
    return _calls(found, "Session.audio")


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
    until = time.monotonic() + _PATIENCE_SECONDS
    while not out.exists():
        if time.monotonic() > until:
            raise RuntimeError("the server did not write down what it found")
        time.sleep(0.05)
    return msgspec.json.decode(out.read_bytes(), type=Found)
