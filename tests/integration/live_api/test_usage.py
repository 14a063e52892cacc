"""What tenants used: counted where jobs end, asked for over HTTP and on the command line."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.live_api.manual_node import Body, Caller, ManualNode, problem
from tests.integration.serve.server_process import ServerProcess, environment, run

Pair = tuple[str, str]


def key_of(server: ServerProcess, role: str, tenant: str) -> str:
    options = ("--role", role, "--tenant", tenant, "--data-dir", server.data_dir)
    return run("keys", "create", *options)[1].splitlines()[-1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", env=environment(DRAGOMAN_AUTH__MODE="keys")) as server:
        yield server


def test_usage_is_added_up_by_tenant_and_day_and_outlives_the_server(
    server: ServerProcess, pair: Pair
) -> None:
    keys = {name: key_of(server, "client", name) for name in ("red", "blue")}
    node_key, operator_key = key_of(server, "node", "red"), key_of(server, "operator", "op")
    red, blue, operator = (Caller(server, key) for key in (*keys.values(), operator_key))
    try:
        with ManualNode(server, pair, key=node_key, slots=9) as node:
            _work(red, node, pair, {"text": "hello"}, usage={"tokens_in": 5, "tokens_out": 2})
            sound = base64.b64encode(bytes(48_000)).decode()
            spoken = {"text": None, "audio": sound, "pipeline": {"use_tts": False}}
            _work(red, node, pair, spoken, text_asr="good day")
            reported = {"audio_seconds": 4.25, "characters": 100}
            _work(red, node, pair, spoken, usage=reported)
            _work(blue, node, pair, {"text": "hi"})
            red.ask(pair, text="never counted")
            node.fail(node.take(), "TOO_LOUD", retryable=False)
        (mine,) = red.get("/usage").json()["items"]
        expected = {"tenant_id": "red", "jobs": 3, "tokens_in": 5, "tokens_out": 2}
        assert expected.items() <= mine.items()
        assert mine["audio_seconds"] == 1.5 + 4.25
        assert mine["characters"] == len("hello") + len("good day") + 100
        (theirs,) = blue.get("/usage").json()["items"]
        assert (theirs["tenant_id"], theirs["jobs"], theirs["characters"]) == ("blue", 1, 2)
        everyone = operator.get("/usage").json()["items"]
        assert [one["tenant_id"] for one in everyone] == ["blue", "red"]
        assert operator.get("/usage", tenant_id="red").json()["items"] == [mine]
        assert problem(blue.get("/usage", tenant_id="red")) == (403, "FORBIDDEN")
        assert problem(operator.get("/usage", **{"from": "yesterday"}))[0] == 422
        assert operator.get("/usage", to="2020-01-01").json()["items"] == []
        first = operator.get("/usage", limit=1).json()
        rest = operator.get("/usage", limit=1, cursor=first["next"]).json()
        assert first["items"] + rest["items"] == everyone
        table = operator.get("/usage", format="csv")
        assert table.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert [(row["tenant_id"], row["jobs"]) for row in rows] == [("blue", "1"), ("red", "3")]
        way = ("--url", server.url, "--token", operator_key)
        _, out, _ = run("usage", "--tenant", "red", *way)
        assert "5.8" in out
        assert "blue" not in out
        assert run("usage", "--csv", *way)[1].replace("\r", "") == table.text.replace("\r", "")
        assert run("usage", "--csv", "--json", *way)[0] == 2
    finally:
        for caller in (red, blue, operator):
            caller.close()
    server.end()
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(server.data_dir, env=env) as again:
        caller = Caller(again, operator_key)
        assert caller.get("/usage").json()["items"] == everyone
        caller.close()


def _work(caller: Caller, node: ManualNode, pair: Pair, body: Body, **result: object) -> None:
    answer = caller.ask(pair, **body)
    assert answer.status_code == 201, answer.text
    job = node.take()
    node.succeed(job, text_translated="hola", **result)
    ended = caller.get(f"/jobs/{job['job_id']}")
    while ended.json()["outcome"] is None:
        ended = caller.get(f"/jobs/{job['job_id']}")
    assert ended.json()["outcome"] == "success"
