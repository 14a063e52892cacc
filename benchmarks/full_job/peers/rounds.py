"""Each peer in turn: a Redis of its own, one worker process, one producer."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.full_job.comparison import Effort
from benchmarks.full_job.figures import Figures
from benchmarks.full_job.peers.environments import (
    PEERS,
    RAY,
    ROOT,
    NotInstalled,
    Peer,
    install,
)
from benchmarks.processes import free_port, running

HOLD_FACTOR = 5
"""So many times less CPU a job than the best peer."""

_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class PeerFigures:
    """CPU microseconds a job, by process, and the rate."""

    name: str
    broker_us: float
    producer_us: float
    worker_us: float
    jobs_per_second: float

    @property
    def scheduling_us(self) -> float:
        """What stands in for a scheduler: the broker, and the producer that asks it."""
        return self.broker_us + self.producer_us


@dataclass(frozen=True)
class Field:
    """The peers that were measured, and why others were not."""

    measured: list[PeerFigures]
    left_out: list[str]


def measure_peers(effort: Effort, say: Callable[[str], None], *, ray: bool) -> Field:
    """All that can be installed and bring their jobs to an end."""
    if shutil.which("redis-server") is None:
        return Field([], ["All peers are left out: redis-server is not on the path."])
    field = Field([], [])
    for peer in (*PEERS, RAY) if ray else PEERS:
        try:
            install(peer)
            rounds = [_measure(peer, effort) for _ in range(effort.rounds)]
        except (NotInstalled, PeerFailed) as problem:
            field.left_out.append(f"{peer.name} is left out: {problem}.")
            say(field.left_out[-1])
            continue
        row = PeerFigures(
            peer.name,
            *(median(getattr(one, part) for one in rounds) for part in _PARTS),
        )
        field.measured.append(row)
        say(f"{row.name}: {row.scheduling_us:.0f} us, {row.jobs_per_second:,.0f} jobs/s")
    return field


_PARTS = ("broker_us", "producer_us", "worker_us", "jobs_per_second")


class PeerFailed(Exception):
    """Raised when a peer did not bring its jobs to an end; says how it failed."""


def _measure(peer: Peer, effort: Effort) -> PeerFigures:
    with (
        tempfile.TemporaryDirectory() as folder,
        _redis(Path(folder)) as (url, broker_pid),
    ):
        env = {"BENCH_REDIS_URL": url, "PYTHONPATH": str(ROOT)}
        log = Path(folder, "worker.log")
        worker = [str(peer.python), "-m", *peer.worker] if peer.worker else ["sleep", "infinity"]
        with running(worker, env=env, log=log) as process:
            return _produce(peer, effort, env, broker_pid, process.pid)


def _produce(
    peer: Peer, effort: Effort, env: dict[str, str], broker_pid: int, worker_pid: int
) -> PeerFigures:
    asked = {
        "--seconds": effort.seconds,
        "--warm-up-seconds": effort.warm_up_seconds,
        "--broker-pid": broker_pid,
        "--worker-pid": worker_pid,
    }
    arguments = [str(word) for pair in asked.items() for word in pair]
    seconds = effort.seconds + effort.warm_up_seconds + _PATIENCE_SECONDS
    with running([*peer.producer, *arguments], env=env) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise PeerFailed(f"it took longer than {seconds:.0f} s") from None
    if not said:
        raise PeerFailed(f"its producer ended with {process.returncode}")
    shown = json.loads(said.splitlines()[-1])
    per_job = 1e6 / max(1, shown["jobs"])
    return PeerFigures(
        peer.name,
        shown["broker_cpu_seconds"] * per_job,
        shown["producer_cpu_seconds"] * per_job,
        shown["worker_cpu_seconds"] * per_job,
        shown["jobs"] / shown["seconds"],
    )


@contextmanager
def _redis(folder: Path) -> Iterator[tuple[str, int]]:
    """A Redis without persistence; its URL and its process."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--dir", str(folder), "--save", ""]
    with running(command, log=folder / "redis.log") as process:
        # It says so in its log; a client that connects before is refused.
        while "Ready to accept connections" not in (folder / "redis.log").read_text():
            if process.poll() is not None:
                raise PeerFailed("redis-server ended before it was ready")
        yield f"redis://127.0.0.1:{port}", process.pid


def peer_figures(field: Field, dragoman_us: float) -> Figures:
    figures = Figures(
        "No-op job with its result, one worker process: CPU microseconds a job",
        ("", "scheduler + broker", "of it broker", "of it producer", "worker", "jobs/s", "factor"),
    )
    figures.rows.append(("Dragoman, text", f"{dragoman_us:.0f}", "", "", "", "", "1"))
    for row in sorted(field.measured, key=lambda row: row.scheduling_us):
        figures.rows.append(
            (
                row.name,
                f"{row.scheduling_us:.0f}",
                f"{row.broker_us:.0f}",
                f"{row.producer_us:.0f}",
                f"{row.worker_us:.0f}",
                f"{row.jobs_per_second:,.0f}",
                f"{row.scheduling_us / dragoman_us:.1f}",
            )
        )
    if field.measured:
        best = min(field.measured, key=lambda row: row.scheduling_us)
        factor = best.scheduling_us / dragoman_us
        verdict = "held" if factor >= HOLD_FACTOR else "not held"
        figures.notes.append(
            f"To hold: the best of them takes at least {HOLD_FACTOR} x as much. "
            f"{verdict.capitalize()} here ({best.name}, {factor:.1f} x)."
        )
    figures.notes += field.left_out
    figures.notes.append(
        "A task queue has no scheduler process: its client library and its broker do that work, so "
        "the producer, which sends jobs and awaits results, counts with the broker. Worker "
        "processes, like Dragoman's nodes, do not count."
    )
    return figures
