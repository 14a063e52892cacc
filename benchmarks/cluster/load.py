"""What is asked of instances in one run, and what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.full_job.load import Address, DriverFailed

_PATIENCE_SECONDS = 180
_ROOT = Path(__file__).resolve().parents[2]


class Place(msgspec.Struct, frozen=True):
    """Servers, and which of them nodes and sessions connect to, in turns."""

    instances: tuple[Address, ...]
    nodes_at: tuple[Address, ...]
    sessions_at: tuple[Address, ...]
    redis: Address | None = None


class FullSpeed(msgspec.Struct, frozen=True, tag=True):
    """Each session says the next utterance as soon as the last one was answered."""

    place: Place
    rounds: int
    seconds: float
    warm_up_seconds: float


class Paced(msgspec.Struct, frozen=True, tag=True):
    """So many utterances a second, whatever comes back."""

    place: Place
    jobs_per_second: float
    rounds: int
    seconds: float
    warm_up_seconds: float


class Weight(msgspec.Struct, frozen=True, tag=True):
    """Nodes that connect, and jobs that none of them ends, for what Redis keeps of them."""

    place: Place
    nodes: int
    jobs: int


class RoundTrips(msgspec.Struct, frozen=True, tag=True):
    """One utterance at a time, with a line to Redis so slow that nothing else takes time."""

    place: Place
    utterances: int


Load = FullSpeed | Paced | Weight | RoundTrips


class Outcome(msgspec.Struct, frozen=True):
    """What instances and Redis did in one round."""

    jobs: int
    seconds: float
    scheduler_cpu_seconds: float
    redis_cpu_seconds: float
    operations: dict[str, float]
    """Of the ledger, the records and the cluster, for each job, without those that idling costs."""
    p99_allocation_ms: float
    waited_seconds: float = 0.0
    """How long instances and Redis were ready to run and had no core."""

    @property
    def waited_us(self) -> float:
        return self.waited_seconds * 1e6 / max(1, self.jobs)

    @property
    def scheduler_us(self) -> float:
        return self.scheduler_cpu_seconds * 1e6 / max(1, self.jobs)

    @property
    def redis_us(self) -> float:
        return self.redis_cpu_seconds * 1e6 / max(1, self.jobs)

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.seconds


class Weighed(msgspec.Struct, frozen=True):
    """How much Redis holds more, in bytes."""

    nodes_bytes: int
    jobs_bytes: int


class Waits(msgspec.Struct, frozen=True):
    """From each utterance to its job_assign."""

    seconds: tuple[float, ...]


Answer = TypeVar("Answer")


def drive(load: Load, answer: type[Answer]) -> Answer:
    """Put a load on servers from another process, and wait for the end of it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster.driver", msgspec.json.encode(load).decode()],
        capture_output=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        timeout=_PATIENCE_SECONDS,
    )
    if done.returncode:
        raise DriverFailed(done.stderr.decode(errors="replace").strip())
    return msgspec.json.decode(done.stdout, type=answer)
