"""A worker on its own tells Prometheus what it did."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.integration.lab_api.conftest import jsonl, order_of
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)
from tests.integration.sight.scrape import Scrape


@contextmanager
def worker(env: dict[str, str], *arguments: str | Path) -> Iterator[str]:
    """``dragoman worker`` once it is ready; the address of its metrics."""
    command = [DRAGOMAN, "worker", "--metrics-port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    try:
        found = re.search(r"metrics at (http://\S+)/metrics", process.stdout.readline())
        assert found is not None
        yield found[1]
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_items_that_a_worker_carried_out_are_in_its_metrics(tmp_path: Path) -> None:
    env = environment(
        DRAGOMAN_STORE__DATABASE_URL=f"sqlite:///{tmp_path}/shared.db",
        DRAGOMAN_LAB__OWN_WORKER="false",
    )
    with (
        ServerProcess(tmp_path / "data", env=env, lab=True) as server,
        worker(env, "--data-dir", tmp_path / "worker") as metrics_url,
    ):
        experiment_id = submit(server)
        path = f"/api/v1/experiments/{experiment_id}"
        eventually(lambda: server.get(path).json()["status"] == "success", "it ended")
        assert httpx.get(f"{metrics_url}/healthz").status_code == 200
        stranger = httpx.get(f"{metrics_url}/metrics", headers={"Host": "evil.example"})
        assert stranger.status_code == 403
        told = Scrape(httpx.get(f"{metrics_url}/metrics").text)
        assert told.total("lab_item_seconds") == 3
        assert told.total("lab_process_resident_memory_bytes") > 0
        assert told.total("lab_build_info") == 1
        assert not [name for name in told.names if not name.startswith("lab_")]


def submit(server: ServerProcess) -> str:
    rows = [{"said": str(number), "meant": str(number)} for number in range(3)]
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=PATIENCE_SECONDS) as http:
        files = {"file": ("d.jsonl", jsonl(rows))}
        dataset = http.post("/datasets", data={"name": "cases"}, files=files).json()
        made = http.post("/experiments/submit", json=order_of(dataset["version_id"])).json()
    return str(made["experiment_id"])


def test_where_keys_are_needed_a_worker_shows_its_metrics_to_those_who_may_see_them(
    tmp_path: Path,
) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys", DRAGOMAN_SERVER__DATA_DIR=str(tmp_path))
    keys = {}
    for role in ("viewer", "client"):
        code, printed, errors = run("keys", "create", "--role", role, env=env)
        assert code == 0, errors
        keys[role] = printed.split()[-1]
    with worker(env) as metrics_url:

        def status(key: str | None) -> int:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return httpx.get(f"{metrics_url}/metrics", headers=headers).status_code

        assert status(None) == 401
        assert status(keys["client"]) == 403
        assert status(keys["viewer"]) == 200
        assert httpx.get(f"{metrics_url}/healthz").status_code == 200


def test_a_worker_without_keys_shows_its_metrics_to_no_other_machine(tmp_path: Path) -> None:
    env = environment(DRAGOMAN_SERVER__HOST="0.0.0.0", DRAGOMAN_SERVER__DATA_DIR=str(tmp_path))
    code, _, errors = run("worker", "--metrics-port", "0", env=env)
    assert code != 0
    assert "auth.mode" in errors
