"""``GET /api/v1/stats``: for operators, at once, and true a moment later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair, problem
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run
from websockets.sync.client import connect

QUICK = {"DRAGOMAN_SCHEDULER__STATS__SNAPSHOT_SECONDS": "0.1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys", **QUICK)
    with ServerProcess(tmp_path_factory.mktemp("stats") / "data", env=env) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    made = {}
    for role in ("operator", "client", "node"):
        code, output, errors = run("keys", "create", "--role", role, "--data-dir", server.data_dir)
        assert code == 0, errors
        made[role] = output.splitlines()[-1]
    return made


@pytest.fixture
def operator(server: ServerProcess, keys: dict[str, str]) -> Iterator[Caller]:
    caller = Caller(server, keys["operator"])
    yield caller
    caller.close()


def stats(operator: Caller) -> dict[str, Any]:
    eventually(lambda: operator.get("/stats").status_code == 200, "stats were ready")
    found: dict[str, Any] = operator.get("/stats").json()
    return found


@pytest.mark.parametrize("path", ["/api/v1/stats", "/api/v1/metrics"])
def test_only_operators_may_look(server: ServerProcess, keys: dict[str, str], path: str) -> None:
    assert problem(server.get(path)) == (401, "UNAUTHORIZED")
    assert problem(server.get(path, keys["client"])) == (403, "FORBIDDEN")
    assert problem(server.get(path, keys["node"])) == (403, "FORBIDDEN")
    assert server.get(path, keys["operator"]).status_code in (200, 503)


def test_stats_have_every_field(operator: Caller) -> None:
    found = stats(operator)

    assert set(found) == {"generated_at", "stale", "sessions", "nodes", "jobs"}
    assert found["stale"] is False
    assert set(found["sessions"]) == {"active", "top_languages", "language_usage"}
    assert set(found["nodes"]) == {"total", "by_status", "by_service_type", "slots"}
    assert set(found["nodes"]["slots"]) == {"total", "used"}
    assert set(found["jobs"]) == {"created", "running", "success", "failed"}


def test_what_happens_is_seen_with_the_next_snapshot(
    server: ServerProcess, keys: dict[str, str], operator: Caller
) -> None:
    pair = new_pair()
    before = stats(operator)["jobs"]

    def jobs(name: str) -> int:
        return int(stats(operator)["jobs"][name] - before[name])

    with ManualNode(server, pair, slots=2, key=keys["node"]) as node:
        eventually(lambda: stats(operator)["nodes"]["slots"]["total"] == 2, "the slots were seen")
        assert stats(operator)["nodes"]["by_service_type"]["nmt"] == 1
        operator.ask(pair)
        job = node.take()
        eventually(lambda: jobs("running") == 1, "the job was seen to run")
        assert stats(operator)["nodes"]["slots"] == {"total": 2, "used": 1}
        node.succeed(job)
        eventually(lambda: jobs("success") == 1, "its success was seen")
        assert (jobs("created"), jobs("running")) == (1, 0)
    eventually(lambda: stats(operator)["nodes"]["by_status"]["offline"] == 1, "the node was missed")


def test_languages_are_those_of_open_sessions(
    server: ServerProcess, keys: dict[str, str], operator: Caller
) -> None:
    url = server.url.replace("http", "ws") + "/ws/session"
    headers = {"Authorization": f"Bearer {keys['client']}"}
    with connect(url, additional_headers=headers, compression=None) as client:
        client.send(
            json.dumps({"type": "session_init", "src_lang": "ja", "tgt_langs": ["ko", "fi"]})
        )
        eventually(lambda: stats(operator)["sessions"]["active"] == 1, "the session was seen")
        sessions = stats(operator)["sessions"]
        assert sessions["language_usage"] == {
            "ja": {"as_source": 1, "as_target": 0},
            "ko": {"as_source": 0, "as_target": 1},
            "fi": {"as_source": 0, "as_target": 1},
        }
        assert sorted(sessions["top_languages"]) == ["fi", "ja", "ko"]
        client.send(json.dumps({"type": "session_close"}))
        eventually(lambda: stats(operator)["sessions"]["active"] == 0, "the session was over")
        assert stats(operator)["sessions"]["language_usage"] == {}


def test_a_server_asked_by_many_while_it_starts_answers_each_with_stats_or_not_ready(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with ServerProcess(tmp_path_factory.mktemp("cold") / "data", env=environment()) as server:
        with ThreadPoolExecutor(20) as threads:
            asked = [threads.submit(server.get, "/api/v1/stats") for _ in range(100)]
            answers = [each.result() for each in asked]
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert all(problem(answer)[1] == "stats_not_ready" for answer in answers if answer.is_error)
        assert "scheduler_stats_requests_total 100.0" in server.get("/metrics").text
