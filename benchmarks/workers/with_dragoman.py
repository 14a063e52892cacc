"""The experiment on `dragoman serve`, which only schedules, and so many `dragoman worker`."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx

from benchmarks.cluster.servers import redis_server
from benchmarks.full_job.peers.environments import ROOT
from benchmarks.processes import running
from benchmarks.workers.calls import CONCURRENCY
from benchmarks.workers.measured import DatabaseServer, Measured, ProcessorTimes, Task

_DRAGOMAN = str(Path(sys.executable).with_name("dragoman"))
_CALLS = "benchmarks.workers.calls"
_ENDED = ("success", "failed", "terminated")
_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.2

_SETTINGS = """
[store]
database_url = "{database}"
[lab]
queue_url = "{redis}"
analytics_url = ""
own_worker = false
python_allow = ["{calls}:*"]
[server]
drain_seconds = 0
[log]
level = "warning"
"""


def measure(task: Task, database: DatabaseServer) -> Measured:
    """One round, in processes of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(redis_server())
        config = folder / "dragoman.toml"
        queue_url = f"redis://127.0.0.1:{redis.port}"
        config.write_text(
            _SETTINGS.format(database=database.fresh_database(), redis=queue_url, calls=_CALLS)
        )
        env = {"PYTHONPATH": str(ROOT)}
        flags = ["--config", str(config), "--data-dir", str(folder / "data")]
        server = stack.enter_context(running([_DRAGOMAN, "serve", "--port", "0", *flags], env=env))
        url = _first_line(server).split()[-1]
        workers = [
            stack.enter_context(
                running([_DRAGOMAN, "worker", *flags, "--concurrency", str(CONCURRENCY)], env=env)
            )
            for _ in range(task.workers)
        ]
        for worker in workers:
            _first_line(worker)
        http = stack.enter_context(httpx.Client(base_url=f"{url}/api/v1", timeout=60))
        experiment = _made(http, task)
        times = ProcessorTimes(
            scheduler=[server.pid], workers=[one.pid for one in workers], database=[database.pid]
        )
        _carry_out(http, experiment)
        measured = Measured(task.items, cpu_seconds=times.since())
        measured.seconds = _seconds(_shown(http, experiment), task)
        return measured


def _made(http: httpx.Client, task: Task) -> str:
    rows = "".join(f'{{"text": "sentence {number}"}}\n' for number in range(task.items))
    imported = http.post(
        "/datasets", data={"name": "rows"}, files={"file": ("rows.jsonl", rows.encode())}
    )
    function = "later" if task.latency_seconds else "at_once"
    order = {
        "name": "workers",
        "dataset_version_id": imported.raise_for_status().json()["version_id"],
        "target": {"kind": "python", "function": f"{_CALLS}:{function}"},
        "evaluators": [{"kind": "exact", "reference": "text"}],
        "concurrency": CONCURRENCY,
    }
    made = http.post("/experiments", json=order).raise_for_status()
    return f"/experiments/{made.json()['experiment_id']}"


def _carry_out(http: httpx.Client, experiment: str) -> None:
    http.post(f"{experiment}/runs", json={"mode": "submit"}).raise_for_status()
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while _shown(http, experiment)["status"] not in _ENDED:
        if time.monotonic() > give_up_at:
            raise RuntimeError("The experiment did not end.")
        time.sleep(_LOOK_SECONDS)


def _shown(http: httpx.Client, experiment: str) -> dict[str, Any]:
    shown: dict[str, Any] = http.get(experiment).raise_for_status().json()
    return shown


def _seconds(shown: dict[str, Any], task: Task) -> float:
    """From the start to the end, by the server's clock."""
    if shown["stats"]["success"] != task.items:
        raise RuntimeError(f"Only {shown['stats']['success']} of {task.items} items went well.")
    began, ended = (datetime.fromisoformat(shown[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def _first_line(process: Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended before it was ready")
    return line
