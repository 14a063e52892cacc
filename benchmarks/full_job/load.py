"""What is asked of a server in one run, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

NODES = 20
SESSIONS = 50
SLOTS_PER_NODE = 8
IN_FLIGHT_PER_SESSION = 1
"""Enough that the server always has something to do, and never so much that jobs wait for slots."""

TEXT = "Could you tell me where the station is, please?"
AUDIO_3S_BYTES = 96_000

_PATIENCE_SECONDS = 60
_ROOT = Path(__file__).resolve().parents[2]


class Address(msgspec.Struct, frozen=True):
    """A server on this machine."""

    port: int
    pid: int


class FrameSizes(msgspec.Struct, frozen=True):
    """The bytes of each frame in a job's life, on average."""

    utterance: int
    job_assign: int
    job_ack: int
    job_started: int
    job_result: int
    translation_result: int


class JobLoad(msgspec.Struct, frozen=True, tag=True):
    """Utterances, each answered before the session speaks the next."""

    server: Address
    binary: bool
    audio_bytes: int
    seconds: float
    warm_up_seconds: float
    relay_sizes: FrameSizes | None = None
    """Set for the relay: the sizes its frames are to have."""


class SpeechLoad(msgspec.Struct, frozen=True, tag=True):
    """Speakers whose audio comes in small chunks, as fast as they speak."""

    server: Address
    binary: bool
    speakers: int
    chunk_ms: int
    seconds: float
    warm_up_seconds: float
    vad: str | None = None
    """With it they speak and pause, instead of sending what is nothing."""


class Outcome(msgspec.Struct, frozen=True):
    """What a server did in the time measured."""

    jobs: int
    seconds: float
    cpu_seconds: float
    sizes: FrameSizes | None = None
    chunks: int = 0
    """Of audio, that speakers sent."""
    waits_ms: tuple[float, ...] = ()
    """From the last chunk of each utterance to its job_assign."""

    @property
    def cpu_us_per_job(self) -> float:
        return self.cpu_seconds * 1e6 / max(1, self.jobs)

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.seconds


class DriverFailed(Exception):
    """Raised when a load could not be put on a server, or jobs failed under it."""


def drive(load: JobLoad | SpeechLoad) -> Outcome:
    """Put a load on a server from another process, and wait for the end of it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.full_job.driver", msgspec.json.encode(load).decode()],
        capture_output=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        timeout=load.seconds + load.warm_up_seconds + _PATIENCE_SECONDS,
    )
    if done.returncode:
        raise DriverFailed(done.stderr.decode(errors="replace").strip())
    return msgspec.json.decode(done.stdout, type=Outcome)
