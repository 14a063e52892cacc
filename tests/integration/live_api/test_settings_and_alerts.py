"""What the server says of itself: its settings with their sources, and what it would alert of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import Caller, problem
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("said")
    config = folder / "dragoman.toml"
    config.write_text(
        """
[auth]
mode = "keys"

[limits]
max_sessions = 77

[cluster]
redis_url = "redis://:planted-secret@127.0.0.1:6379/0"
"""
    )
    env = environment(DRAGOMAN_LIMITS__SOCKETS_PER_KEY="55")
    with ServerProcess(folder / "data", "--config", config, env=env) as server:
        yield server


@pytest.fixture(scope="module")
def callers(server: ServerProcess) -> Iterator[dict[str, Caller]]:
    made = {}
    for role in ("operator", "viewer", "client"):
        options = ("--role", role, "--data-dir", server.data_dir)
        code, output, errors = run("keys", "create", *options)
        assert code == 0, errors
        made[role] = Caller(server, output.splitlines()[-1])
    yield made
    for caller in made.values():
        caller.close()


@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_operators_and_viewers_see_every_setting_with_its_source_and_no_secret(
    callers: dict[str, Caller], role: str
) -> None:
    answer = callers[role].get("/settings")
    assert answer.status_code == 200, answer.text
    settings = {item["name"]: item for item in answer.json()["items"]}
    most = settings["limits.max_sessions"]
    assert most["value"] == 77
    assert most["source"].startswith("file ")
    assert most["source"].endswith("dragoman.toml")
    assert most["default"] != 77
    assert settings["limits.sockets_per_key"]["source"] == (
        "environment DRAGOMAN_LIMITS__SOCKETS_PER_KEY"
    )
    assert settings["server.data_dir"]["source"] == "flag --data-dir"
    assert settings["log.format"]["source"] == "default"
    assert settings["cluster.redis_url"]["value"] == "redis://:***@127.0.0.1:6379/0"
    assert "planted-secret" not in answer.text


def test_others_do_not_see_settings(callers: dict[str, Caller]) -> None:
    assert problem(callers["client"].get("/settings")) == (403, "FORBIDDEN")
    sees = callers["client"].get("/me").json()["sees"]
    assert "settings" not in sees


def test_a_server_without_nodes_says_that_it_would_alert_of_it(callers: dict[str, Caller]) -> None:
    def found() -> bool:
        items = callers["viewer"].get("/alerts").json()["items"]
        return "DragomanNoReadyNode" in [item["name"] for item in items]

    eventually(found, "the alert is pending")
    answer = callers["operator"].get("/alerts").json()
    (alert,) = (item for item in answer["items"] if item["name"] == "DragomanNoReadyNode")
    assert (alert["severity"], alert["for_seconds"]) == ("page", 120)
    assert alert["runbook"] == "docs/howto/runbook.md#dragomannoreadynode"
    assert "DragomanDown" in answer["not_judged"]
    assert answer["looked_at"] is not None
    assert problem(callers["client"].get("/alerts")) == (403, "FORBIDDEN")
