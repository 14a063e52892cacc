"""Sessions over HTTP and over a real socket: what is shown of them, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, problem
from tests.integration.serve.server_process import ServerProcess, environment, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

FIELDS = {
    "session_id",
    "tenant_id",
    "src_lang",
    "tgt_langs",
    "state",
    "instance_id",
    "utterances",
    "in_flight",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys")
    with ServerProcess(tmp_path_factory.mktemp("sessions") / "data", env=env) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    """An operator's key, and one for a client of each of two tenants."""
    wanted = {
        "operator": ("--role", "operator"),
        "red": ("--role", "client", "--tenant", "red"),
        "blue": ("--role", "client", "--tenant", "blue"),
        "node": ("--role", "node"),
    }
    made = {}
    for name, options in wanted.items():
        code, output, errors = run("keys", "create", *options, "--data-dir", server.data_dir)
        assert code == 0, errors
        made[name] = output.splitlines()[-1]
    return made


@pytest.fixture
def callers(server: ServerProcess, keys: dict[str, str]) -> Iterator[dict[str, Caller]]:
    made = {name: Caller(server, key) for name, key in keys.items()}
    yield made
    for caller in made.values():
        caller.close()


@contextmanager
def session(server: ServerProcess, key: str, **init: Any) -> Iterator[tuple[ClientConnection, str]]:
    """An open session's socket and id."""
    url = server.url.replace("http", "ws") + f"/ws/session?token={key}"
    with connect(url, compression=None) as socket:
        socket.send(json.dumps({"type": "session_init", **init}))
        ack = json.loads(socket.recv(timeout=10))
        assert ack["type"] == "session_init_ack", ack
        yield socket, ack["session_id"]


def ids(caller: Caller) -> list[str]:
    return [item["session_id"] for item in caller.get("/sessions").json()["items"]]


def test_a_session_is_shown_without_what_was_said(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller]
) -> None:
    with session(server, keys["red"], src_lang="zh", tgt_langs=["en", "fr"]) as (socket, found):
        socket.send(json.dumps({"type": "utterance", "utterance_index": 0, "text": "a secret"}))
        for _ in range(4):  # an error and a missing_result for each target
            socket.recv(timeout=10)
        shown = callers["red"].get(f"/sessions/{found}")
        assert shown.status_code == 200
        body = shown.json()
        assert set(body) == FIELDS
        assert body["session_id"] == found
        assert (body["tenant_id"], body["state"]) == ("red", "active")
        assert (body["src_lang"], body["tgt_langs"]) == ("zh", ["en", "fr"])
        assert (body["utterances"], body["in_flight"]) == (1, 0)
        assert "secret" not in shown.text
        assert body in callers["red"].get("/sessions").json()["items"]


def test_another_tenants_session_does_not_exist(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller]
) -> None:
    with session(server, keys["red"], src_lang="zh", tgt_lang="en") as (_, found):
        assert problem(callers["blue"].get(f"/sessions/{found}")) == (404, "NOT_FOUND")
        assert problem(callers["blue"].get("/sessions/s-nobody")) == (404, "NOT_FOUND")
        assert found not in ids(callers["blue"])
        assert found in ids(callers["operator"])
        assert callers["operator"].get(f"/sessions/{found}").status_code == 200
        assert problem(callers["node"].get("/sessions")) == (403, "FORBIDDEN")


def test_an_operator_sees_every_session_page_by_page(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller]
) -> None:
    two_ways = {"mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
    with (
        session(server, keys["red"], src_lang="zh", tgt_lang="en") as (_, one),
        session(server, keys["blue"], **two_ways) as (_, other),
    ):
        found: list[str] = []
        cursor: str | None = None
        while not found or cursor is not None:
            query = {"cursor": cursor} if cursor else {}
            page = callers["operator"].get("/sessions", limit=1, **query).json()
            found += [item["session_id"] for item in page["items"]]
            cursor = page["next"]
        assert {one, other} <= set(found)
        assert found == sorted(set(found))
        shown = callers["operator"].get(f"/sessions/{other}").json()
        assert (shown["src_lang"], shown["tgt_langs"]) == ("auto", ["zh", "en"])
        assert problem(callers["operator"].get("/sessions", cursor="x")) == (422, "INVALID_MESSAGE")


def test_an_init_for_another_tenant_is_closed_as_forbidden(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    url = server.url.replace("http", "ws") + f"/ws/session?token={keys['red']}"
    with connect(url, compression=None) as socket:
        init = {"type": "session_init", "src_lang": "zh", "tgt_lang": "en", "tenant_id": "blue"}
        socket.send(json.dumps(init))
        assert json.loads(socket.recv(timeout=10))["code"] == "FORBIDDEN"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403


def test_a_session_is_ended_only_by_its_own_tenant_or_an_operator(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller]
) -> None:
    for entitled in ("red", "operator"):
        with session(server, keys["red"], src_lang="zh", tgt_lang="en") as (socket, found):
            path = f"/sessions/{found}"
            assert problem(callers["blue"].delete(path)) == (404, "NOT_FOUND")
            assert problem(callers["node"].delete(path)) == (403, "FORBIDDEN")
            assert callers["red"].get(path).json()["state"] == "active"

            ended = callers[entitled].delete(path)
            assert (ended.status_code, ended.json()["state"]) == (200, "over")
            assert json.loads(socket.recv(timeout=10))["code"] == "SESSION_CLOSED"
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=10)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
            assert problem(callers[entitled].delete(path)) == (404, "NOT_FOUND")
            assert found not in ids(callers["operator"])


def test_a_timeline_shows_where_time_went_and_not_what_was_said(
    server: ServerProcess, keys: dict[str, str], callers: dict[str, Caller]
) -> None:
    languages = ("en-timed", "es-timed")
    init = {"src_lang": languages[0], "tgt_langs": [languages[1], "xx-unserved"]}
    with (
        ManualNode(server, languages, key=keys["node"], node_id="n-timed") as node,
        session(server, keys["red"], **init) as (socket, found),
    ):
        empty = callers["red"].get(f"/sessions/{found}/timeline").json()
        assert (empty["session_id"], empty["items"]) == (found, [])
        for index in range(2):
            said = {"type": "utterance", "utterance_index": index, "text": "a secret"}
            socket.send(json.dumps(said))
            job = node.take()
            node.accept(job)
            node.succeed(job, text_translated="un secreto", timings={"nmt_ms": 7})
            deliveries = ["translation_result", "missing_result"]
            while deliveries:
                kind = json.loads(socket.recv(timeout=10))["type"]
                if kind in deliveries:
                    deliveries.remove(kind)
        shown = callers["red"].get(f"/sessions/{found}/timeline")
        items = shown.json()["items"]
        assert [item["delivery_seq"] for item in items] == [1, 2, 3, 4]
        assert {(item["utterance_index"], item["tgt_lang"]) for item in items} == {
            (index, language) for index in range(2) for language in init["tgt_langs"]
        }
        (first, _) = (item for item in items if item["tgt_lang"] == languages[1])
        assert (first["node_id"], first["timings"]["nmt_ms"]) == ("n-timed", 7)
        parts = first["queued_ms"] + first["dispatch_ms"] + first["node_ms"]
        assert parts == first["total_ms"] >= 0
        (refused, _) = (item for item in items if item["tgt_lang"] == "xx-unserved")
        assert (refused["reason"], refused["total_ms"]) == ("PAIR_UNSUPPORTED", None)
        assert "secret" not in shown.text
        last = callers["red"].get(f"/sessions/{found}/timeline", last=1).json()
        assert [item["delivery_seq"] for item in last["items"]] == [4]
        assert last["omitted"] == 3
        assert problem(callers["blue"].get(f"/sessions/{found}/timeline")) == (404, "NOT_FOUND")
        assert callers["operator"].get(f"/sessions/{found}/timeline").json()["items"] == items
    assert callers["red"].delete(f"/sessions/{found}").status_code in (200, 404)
    # What is remembered outlives the session, for those who might see it.
    assert callers["red"].get(f"/sessions/{found}/timeline").json()["items"] == items
    assert problem(callers["blue"].get(f"/sessions/{found}/timeline")) == (404, "NOT_FOUND")
    assert problem(callers["red"].get("/sessions/s-none/timeline")) == (404, "NOT_FOUND")
