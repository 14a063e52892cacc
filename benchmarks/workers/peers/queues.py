"""The task queues: how they are installed, and how their workers and producer are started."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster.servers import redis_server
from benchmarks.full_job.peers.environments import ROOT, NotInstalled, Peer, install
from benchmarks.processes import running
from benchmarks.workers.calls import CONCURRENCY
from benchmarks.workers.measured import DatabaseServer, Measured, ProcessorTimes, Task

_SCRIPTS = "benchmarks.workers.peers"
_DRIVERS = ("psycopg[binary]", "pymysql")
_ROUND_SECONDS = 900


@dataclass(frozen=True)
class TaskQueue:
    """One task queue; each worker is a process with its part of the threads."""

    environment: Peer
    producer: str
    threads_flag: str

    def measure(self, task: Task, database: DatabaseServer) -> Measured:
        """One round, in processes of its own. Raises NotInstalled, or says how it failed."""
        install(self.environment)
        python = str(self.environment.python)
        threads = str(CONCURRENCY // task.workers)
        with ExitStack() as stack:
            log = Path(stack.enter_context(tempfile.TemporaryDirectory()), "workers.log")
            redis = stack.enter_context(redis_server())
            env = {
                "BENCH_DATABASE_URL": database.fresh_database(),
                "BENCH_REDIS_URL": f"redis://127.0.0.1:{redis.port}",
                "BENCH_LATENCY_SECONDS": str(task.latency_seconds),
                "PYTHONPATH": str(ROOT),
            }
            command = [python, "-m", *self.environment.worker, self.threads_flag, threads]
            workers = [
                stack.enter_context(running([*command, *self._named(number)], env=env, log=log))
                for number in range(task.workers)
            ]
            producing = [python, "-m", f"{_SCRIPTS}.{self.producer}", str(task.items)]
            producer = stack.enter_context(running(producing, env=env))
            times = ProcessorTimes(
                scheduler=[redis.pid],
                workers=[one.pid for one in workers],
                database=[database.pid],
            )
            took = _told(producer)
            measured = Measured(task.items, took["seconds"], times.since())
            measured.cpu_seconds["scheduler"] += took["cpu_seconds"]
            return measured

    def _named(self, number: int) -> list[str]:
        # Celery wants its workers told apart; the others do not care.
        return ["--hostname", f"worker-{number}"] if self.producer == "with_celery" else []


def _told(producer: subprocess.Popen[str]) -> dict[str, float]:
    """What the producer says of itself: by then it has ended, and with it the kernel's count."""
    try:
        output, _ = producer.communicate(timeout=_ROUND_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"it took longer than {_ROUND_SECONDS} s") from None
    if not output:
        raise NotInstalled(f"its producer ended with {producer.returncode}")
    told: dict[str, float] = json.loads(output.splitlines()[-1])
    return told


QUEUES = {
    "Celery": TaskQueue(
        Peer(
            "celery-insert",
            ("celery[redis]", *_DRIVERS),
            (
                *("celery", "-A", f"{_SCRIPTS}.with_celery", "worker", "--pool", "threads"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ),
        ),
        "with_celery",
        "--concurrency",
    ),
    "Dramatiq": TaskQueue(
        Peer(
            "dramatiq-insert",
            ("dramatiq[redis]", *_DRIVERS),
            ("dramatiq", f"{_SCRIPTS}.with_dramatiq", "--processes", "1"),
        ),
        "with_dramatiq",
        "--threads",
    ),
}
