"""The lab of a real server: its own process, live pushes, keys, and the end of its parent."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.lab_api.conftest import jsonl, order_of
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)
from tests.servers import DATABASES, fresh_database
from websockets.asyncio.client import connect

ROOT = Path(__file__).parents[3]
HERE = "tests.integration.lab_api.targets"
ROWS = [{"said": str(n), "meant": str(n)} for n in range(20)]
ENDED = ("success", "failed", "terminated")


@pytest.fixture(params=DATABASES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return settings_on(request.param, request, tmp_path)


def settings_on(kind: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    """The environment of a server on a kind of database."""
    chosen = {
        "DRAGOMAN_LAB__PYTHON_ALLOW": '["tests.integration.lab_api.*"]',
        "DRAGOMAN_LAB__LEASE_SECONDS": "2",
        "PYTHONPATH": str(ROOT),
    }
    if kind != "sqlite":
        chosen["DRAGOMAN_STORE__DATABASE_URL"] = fresh_database(kind, request, folder)
    return environment(**chosen)


@pytest.fixture
def server(tmp_path: Path, settings: dict[str, str]) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", env=settings, lab=True) as started:
        yield started


@pytest.fixture(scope="module", params=DATABASES)
def standing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server that several tests share: leave it and its lab alive."""
    folder = tmp_path_factory.mktemp("standing")
    settings = settings_on(request.param, request, folder)
    with ServerProcess(folder / "data", env=settings, lab=True) as started:
        yield started


on_sqlite_alone = pytest.mark.parametrize("standing", ["sqlite"], indirect=True)


def post(server: ServerProcess, path: str, body: object = None, **request: Any) -> Any:
    url = f"{server.url}/api/v1{path}"
    answer = httpx.post(url, json=body, timeout=PATIENCE_SECONDS, **request)
    assert answer.is_success, answer.text
    return answer.json()


def import_rows(server: ServerProcess, name: str = "cases") -> str:
    answer = httpx.post(
        f"{server.url}/api/v1/datasets",
        data={"name": name},
        files={"file": ("d.jsonl", jsonl(ROWS))},
        timeout=PATIENCE_SECONDS,
    )
    return str(answer.json()["version_id"])


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def remove_all_experiments(server: ServerProcess) -> None:
    for found in server.get("/api/v1/experiments").json()["items"]:
        url = f"{server.url}/api/v1/experiments/{found['experiment_id']}"
        assert httpx.delete(url, timeout=PATIENCE_SECONDS).is_success


def test_watchers_hear_every_row_and_the_end(standing: ServerProcess) -> None:
    server = standing
    order = order_of(import_rows(server, "watched"), name="watched", concurrency=2)
    experiment_id = post(server, "/experiments", order)["experiment_id"]

    async def scenario() -> list[dict[str, Any]]:
        url = f"{server.url.replace('http', 'ws', 1)}/ws/experiments/{experiment_id}"
        async with connect(url) as socket:
            heard = [json.loads(await socket.recv())]
            await asyncio.to_thread(post, server, f"/experiments/{experiment_id}/runs", {})
            heard += [json.loads(message) async for message in socket]
            assert socket.close_code == 1000
        async with connect(url) as socket:
            late = [json.loads(message)["type"] async for message in socket]
            assert late == ["stats", "end"]
        return heard

    heard = asyncio.run(scenario())
    assert heard[0]["type"] == "stats"
    rows = [message for message in heard if message["type"] == "row"]
    assert sorted(int(row["input"]["said"]) for row in rows) == list(range(20))
    assert all(row["scores"]["exact"]["score"] == 1.0 for row in rows)
    assert (heard[-1]["type"], heard[-1]["status"]) == ("end", "success")
    assert heard[-2]["stats"]["success"] == 20


def test_watchers_of_the_list_hear_of_new_changed_and_deleted_experiments(
    standing: ServerProcess,
) -> None:
    server = standing
    remove_all_experiments(server)
    version_id = import_rows(server, "listed")
    before = post(server, "/experiments", order_of(version_id, name="before"))["experiment_id"]

    async def scenario() -> None:
        url = f"{server.url.replace('http', 'ws', 1)}/ws/experiments"
        async with connect(url) as socket:

            async def heard() -> dict[str, Any]:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    message: dict[str, Any] = json.loads(await socket.recv())
                return message

            first = await heard()
            assert (first["type"], first["reset"]) == ("experiments", True)
            assert [one["name"] for one in first["changed"]] == ["before"]
            order = order_of(version_id, name="after")
            submitted = await asyncio.to_thread(post, server, "/experiments/submit", order)
            scores: dict[str, Any] = {}
            while not scores:
                message = await heard()
                assert not message["reset"]
                # What has not changed is not told again.
                (changed,) = message["changed"]
                assert changed["experiment_id"] == submitted["experiment_id"]
                scores = changed["scores"]
            assert (changed["status"], scores["exact"]["mean"]) == ("success", 1.0)
            gone = f"{server.url}/api/v1/experiments/{before}"
            await asyncio.to_thread(httpx.delete, gone, timeout=PATIENCE_SECONDS)
            assert (await heard())["gone"] == [before]

    asyncio.run(scenario())


def test_when_the_server_is_killed_its_lab_ends_and_the_next_one_goes_on(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, env=settings, lab=True) as killed:
        endless = {"kind": "python", "function": f"{HERE}:endless"}
        submitted = post(
            killed, "/experiments/submit", order_of(import_rows(killed), target=endless)
        )
        path = f"/api/v1/experiments/{submitted['experiment_id']}"
        eventually(
            lambda: killed.get(path).json()["stats"]["processing"] > 0, "items are worked on"
        )
        (lab,) = children_of(killed.process.pid)
        killed.signal(signal.SIGKILL)
        killed.wait()
        eventually(lambda: not is_running(lab), "the lab ended with its server")
    with ServerProcess(folder, env=settings, lab=True) as server:
        found = server.get(path).json()
        assert found["status"] == "processing"
        post(server, f"/experiments/{submitted['experiment_id']}/kill")
        eventually(lambda: server.get(path).json()["status"] == "terminated", "nothing is locked")


def test_a_lab_that_is_killed_comes_back_and_finishes_what_it_began(server: ServerProcess) -> None:
    version_id = import_rows(server)
    (lab,) = children_of(server.process.pid)
    submitted = post(server, "/experiments/submit", order_of(version_id, concurrency=1))
    os.kill(lab, signal.SIGKILL)
    path = f"/api/v1/experiments/{submitted['experiment_id']}"

    def has_ended() -> bool:
        answer = server.get(path)
        return answer.status_code == 200 and answer.json()["status"] in ENDED

    eventually(has_ended, "the experiment ended")
    found = server.get(path).json()
    assert (found["status"], found["stats"]["success"]) == ("success", 20)
    assert server.get("/readyz").status_code == 200


def test_the_lab_leaves_with_its_server(server: ServerProcess) -> None:
    (lab,) = children_of(server.process.pid)
    assert "lab_items_total" in server.get("/metrics").text
    server.signal()
    assert server.wait() == 0
    assert not is_running(lab)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_the_threads_of_the_lab_share_few_heaps(tmp_path: Path) -> None:
    """What one has freed is of use to the others; else the lab would grow for days."""
    with ServerProcess(tmp_path / "data", env=environment(), lab=True) as server:
        (lab,) = children_of(server.process.pid)
        import_rows(server)
        most = max(2, os.cpu_count() or 1)
        assert len(list(Path(f"/proc/{lab}/task").iterdir())) > most
        assert heaps_of(lab) <= most


def heaps_of(pid: int) -> int:
    """The heaps of glibc: the main one, and those that begin at a multiple of 64 MB.

    Each of those is as large, and its rest, which is not used yet, cannot be read.
    """
    size, count, last = 64 * 2**20, 1, (0, 0)
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights = line.split()[:2]
        begin, end = (int(word, 16) for word in place.split("-"))
        if rights == "---p" and begin == last[1] and last[0] % size == 0 and end == last[0] + size:
            count += 1
        last = (begin, end)
    return count


def test_without_a_lab_there_is_no_process_and_no_route(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", env=environment(DRAGOMAN_LAB__ENABLED="false")) as server:
        assert children_of(server.process.pid) == []
        assert server.get("/api/v1/experiments").status_code == 404
        assert server.get("/readyz").status_code == 200


def test_keys_decide_who_may_use_the_lab_and_stay_out_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(folder, "--log-level", "debug", env=env, lab=True) as server:
        keys = {
            role: run("keys", "create", "--role", role, "--data-dir", folder)[1].split()[-1]
            for role in ("evaluator", "client")
        }
        assert server.get("/api/v1/datasets").status_code == 401
        assert server.get("/api/v1/datasets", keys["client"]).status_code == 403
        assert server.get("/api/v1/datasets", keys["evaluator"]).json()["items"] == []
        assert server.get(f"/api/v1/experiments?token={keys['evaluator']}").status_code == 200
        for key in keys.values():
            assert key not in server.log


@on_sqlite_alone
def test_the_document_tells_of_every_route_of_the_lab(standing: ServerProcess) -> None:
    document = standing.get("/openapi.json").json()
    wanted = {
        "/datasets": {"get", "post"},
        "/datasets/{dataset_id}": {"get"},
        "/datasets/{dataset_id}/versions": {"get", "post"},
        "/datasets/{dataset_id}/items": {"get"},
        "/datasets/{dataset_id}/export": {"get"},
        "/datasets/{dataset_id}/audio/{sha256}": {"get"},
        "/datasets/imports/{import_id}": {"get"},
        "/experiments": {"get", "post"},
        "/experiments/submit": {"post"},
        "/experiments/{experiment_id}": {"get", "patch", "delete"},
        "/experiments/{experiment_id}/runs": {"get", "post"},
        "/experiments/{experiment_id}/kill": {"post"},
        "/experiments/{experiment_id}/clone": {"post"},
        "/experiments/{experiment_id}/results": {"post"},
        "/experiments/{experiment_id}/aggregates": {"get"},
        "/targets": {"get"},
        "/evaluators": {"get"},
        "/evaluators/try": {"post"},
    }
    for path, methods in wanted.items():
        found = document["paths"][f"/api/v1{path}"]
        assert methods <= set(found), path
        for method in methods:
            assert found[method]["security"] == [{"HTTPBearer": []}], path
            if method in ("post", "patch") and not path.endswith("/kill"):
                assert "requestBody" in found[method], path


@on_sqlite_alone
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_body_where_none_belongs_means_nothing(
    standing: ServerProcess, method: str, pieces: int
) -> None:
    content = b'{"a": 1}' if pieces == 1 else iter([b'{"a":', b" 1}"])
    url = f"{standing.url}/api/v1/experiments/e-nothing"
    answer = httpx.request(method, url, content=content, timeout=PATIENCE_SECONDS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
