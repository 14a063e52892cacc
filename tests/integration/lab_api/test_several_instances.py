"""Several servers and workers on one database: who does what, and who hears of it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.lab_api.conftest import jsonl, order_of
from tests.integration.serve.server_process import (
    DRAGOMAN,
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)
from tests.servers import RedisProcess, fresh_database
from websockets.asyncio.client import connect

ROOT = Path(__file__).parents[3]
HERE = "tests.integration.lab_api.targets"
ITEMS = 12


@pytest.fixture(params=["redis", "database"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of processes that share a database and a queue."""
    if request.param == "redis":
        redis: RedisProcess = request.getfixturevalue("redis_server")
        queue_url, database = redis.url, "mariadb"
    else:
        queue_url, database = "database", "postgresql"
    return environment(
        DRAGOMAN_STORE__DATABASE_URL=fresh_database(database, request, tmp_path),
        DRAGOMAN_LAB__QUEUE_URL=queue_url,
        DRAGOMAN_LAB__OWN_WORKER="false",
        DRAGOMAN_LAB__PYTHON_ALLOW='["tests.integration.lab_api.*"]',
        PYTHONPATH=str(ROOT),
    )


@contextmanager
def worker_process(env: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``dragoman worker``, once it is ready."""
    process = subprocess.Popen(
        [DRAGOMAN, "worker", *arguments], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    try:
        assert "ready" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def post(server: ServerProcess, path: str, body: object = None, **request: Any) -> Any:
    url = f"{server.url}/api/v1{path}"
    answer = httpx.post(url, json=body, timeout=PATIENCE_SECONDS, **request)
    assert answer.is_success, answer.text
    return answer.json()


def workers_of(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get("/api/v1/lab/workers").json()["workers"]
    return found


def make_experiment(server: ServerProcess, calls: Path) -> str:
    """An experiment whose calls wait for a file."""
    rows = [{"said": str(n), "meant": str(n), "calls": str(calls)} for n in range(ITEMS)]
    made = httpx.post(
        f"{server.url}/api/v1/datasets",
        data={"name": "cases"},
        files={"file": ("d.jsonl", jsonl(rows))},
        timeout=PATIENCE_SECONDS,
    ).json()
    target = {"kind": "python", "function": f"{HERE}:held"}
    order = order_of(made["version_id"], target=target, concurrency=6)
    return str(post(server, "/experiments", order)["experiment_id"])


def called(calls: Path) -> list[str]:
    return calls.read_text().split() if calls.exists() else []


def test_a_watcher_at_either_server_hears_rows_that_a_worker_made(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    calls = tmp_path / "calls"

    async def watched(server: ServerProcess, experiment_id: str, ready: asyncio.Event) -> Any:
        url = f"{server.url.replace('http', 'ws', 1)}/ws/experiments/{experiment_id}"
        async with connect(url) as socket:
            heard = [json.loads(await socket.recv())]
            ready.set()
            heard += [json.loads(message) async for message in socket]
        return heard

    async def story(one: ServerProcess, two: ServerProcess, experiment_id: str) -> list[Any]:
        ready = [asyncio.Event(), asyncio.Event()]
        watching = [
            asyncio.create_task(watched(server, experiment_id, event))
            for server, event in zip((one, two), ready, strict=True)
        ]
        for event in ready:
            await event.wait()
        await asyncio.to_thread(post, one, f"/experiments/{experiment_id}/runs", {})
        await asyncio.to_thread(eventually, lambda: len(called(calls)) == 6, "items are begun")
        (tmp_path / "calls.released").touch()
        return list(await asyncio.gather(*watching))

    with ExitStack() as stack:
        one = stack.enter_context(ServerProcess(tmp_path / "one", env=settings, lab=True))
        two = stack.enter_context(ServerProcess(tmp_path / "two", env=settings, lab=True))
        stack.enter_context(worker_process(settings))
        eventually(lambda: "DuckDB copy of results has one owner" in two.log, "the server says so")
        experiment_id = make_experiment(one, calls)
        for heard in asyncio.run(story(one, two, experiment_id)):
            rows = [message for message in heard if message["type"] == "row"]
            assert sorted(int(row["input"]["said"]) for row in rows) == list(range(ITEMS))
            assert (heard[-1]["type"], heard[-1]["status"]) == ("end", "success")


def test_a_worker_that_drains_finishes_what_it_has_and_another_does_the_rest(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    calls = tmp_path / "calls"
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path / "data", env=settings, lab=True))
        draining = stack.enter_context(worker_process(settings, "--concurrency", "4"))
        experiment_id = make_experiment(server, calls)
        post(server, f"/experiments/{experiment_id}/runs", {})
        eventually(lambda: len(called(calls)) == 4, "the worker is at work")

        def shown(pid: int) -> dict[str, Any]:
            return next((one for one in workers_of(server) if one["pid"] == pid), {})

        eventually(lambda: shown(draining.pid).get("items") == 4, "it is shown what it works on")
        at_work = shown(draining.pid)
        assert (at_work["state"], at_work["concurrency"]) == ("working", 4)
        assert [run["experiment_id"] for run in at_work["runs"]] == [experiment_id]
        code, table, _ = run("lab", "workers", "--url", server.url)
        assert code == 0
        assert experiment_id in table
        assert str(draining.pid) in table

        draining.send_signal(signal.SIGTERM)
        eventually(lambda: shown(draining.pid).get("state") == "draining", "it drains")
        stack.enter_context(worker_process(settings))
        eventually(lambda: len(called(calls)) == 6, "another takes what is left")
        assert draining.poll() is None, "it waits for its items"
        (tmp_path / "calls.released").touch()
        assert draining.wait(PATIENCE_SECONDS) == 0
        eventually(
            lambda: (
                server.get(f"/api/v1/experiments/{experiment_id}").json()["status"] == "success"
            ),
            "the run ends",
        )
        assert Counter(called(calls)) == {str(n): 1 for n in range(ITEMS)}, "each was called once"
        assert shown(draining.pid) == {}, "a worker that ended in order is not shown"


def test_a_terminal_that_closes_drains_the_worker_however_often_it_says_so(
    settings: dict[str, str],
) -> None:
    with worker_process(settings) as worker:
        worker.send_signal(signal.SIGHUP)
        worker.send_signal(signal.SIGHUP)
        assert worker.stdout is not None
        assert "takes no more items" in worker.stdout.readline()
        assert worker.wait(PATIENCE_SECONDS) == 0


def test_a_second_signal_hands_the_items_back_at_once(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    calls = tmp_path / "calls"
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path / "data", env=settings, lab=True))
        worker = stack.enter_context(worker_process(settings))
        experiment_id = make_experiment(server, calls)
        post(server, f"/experiments/{experiment_id}/runs", {})
        eventually(lambda: len(called(calls)) == 6, "the worker is at work")
        worker.send_signal(signal.SIGTERM)
        assert worker.stdout is not None
        assert "takes no more items" in worker.stdout.readline()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 130
        (tmp_path / "calls.released").touch()
        with worker_process(settings):
            eventually(
                lambda: (
                    server.get(f"/api/v1/experiments/{experiment_id}").json()["status"] == "success"
                ),
                "another worker takes them up, without waiting for a lease of 30 seconds",
            )
