"""A caller that asks for too much is told so: over HTTP and sockets, by a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, new_pair
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
)
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

WRONG_KEY = {"Authorization": "Bearer dgm_" + "w" * 43}
Heard = list[dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(
        DRAGOMAN_LIMITS__SESSIONS_PER_TENANT="1",
        DRAGOMAN_LIMITS__MAX_INFLIGHT_PER_TENANT="1",
        DRAGOMAN_LIMITS__MESSAGES_PER_SECOND="20",
    )
    with ServerProcess(tmp_path_factory.mktemp("limits") / "data", env=env) as server:
        yield server


def talk(server: ServerProcess, *messages: dict[str, Any], tenant: str) -> tuple[Heard, int]:
    """Open a session, say everything, and listen until the socket closes."""
    url = server.url.replace("http", "ws", 1) + "/ws/session"
    heard: Heard = []
    with connect(url) as socket:
        try:
            init = {"type": "session_init", "src_lang": "en", "tgt_lang": "es", "tenant_id": tenant}
            for message in (init, *messages):
                socket.send(json.dumps(message))
        except ConnectionClosed:
            pass
        try:
            while True:
                heard.append(json.loads(socket.recv(timeout=PATIENCE_SECONDS)))
        except ConnectionClosed as closed:
            return heard, closed.rcvd.code if closed.rcvd is not None else 1006


def test_a_request_too_many_is_refused_with_the_time_to_wait(server: ServerProcess) -> None:
    caller, pair = Caller(server), new_pair()
    with ManualNode(server, pair, slots=4) as node:
        assert caller.ask(pair, tenant_id="red").status_code == 201
        job = node.take()
        refused = caller.ask(pair, tenant_id="red")
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        error = refused.json()["error"]
        assert error["code"] == "RATE_LIMITED"
        assert error["details"]["retry_after_ms"] == 1000
        assert caller.job(error["details"]["job_id"])["outcome"] == "failed"
        assert caller.ask(pair, tenant_id="blue").status_code == 201
        node.succeed(job)
        eventually(
            lambda: caller.job(job["job_id"])["outcome"] == "success", "the first job has ended"
        )
        assert caller.ask(pair, tenant_id="red").status_code == 201
    caller.close()


def test_a_session_too_many_is_refused_and_its_socket_closed(server: ServerProcess) -> None:
    url = server.url.replace("http", "ws", 1) + "/ws/session"
    init = {"type": "session_init", "src_lang": "en", "tgt_lang": "es", "tenant_id": "green"}
    with connect(url) as first:
        first.send(json.dumps(init))
        assert json.loads(first.recv())["type"] == "session_init_ack"
        heard, code = talk(server, tenant="green")
        assert [(message["type"], message["code"]) for message in heard] == [
            ("error", "RATE_LIMITED")
        ]
        assert heard[0]["retry_after_ms"] > 0
        assert code == 4429
        first.send(json.dumps({"type": "session_close"}))
        assert json.loads(first.recv())["type"] == "session_close_ack"
    heard, code = talk(server, {"type": "session_close"}, tenant="green")
    assert (heard[0]["type"], code) == ("session_init_ack", 1000)


def test_too_many_messages_a_second_are_told_once_and_closed(server: ServerProcess) -> None:
    beats = [{"type": "client_heartbeat"}] * 200
    heard, code = talk(server, *beats, tenant="grey")
    assert [message["code"] for message in heard if message["type"] == "error"] == ["RATE_LIMITED"]
    assert code == 4429


def test_an_address_that_tries_wrong_keys_is_turned_away_everywhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys", DRAGOMAN_LIMITS__AUTH_FAILURES_PER_MINUTE="2")
    with ServerProcess(tmp_path_factory.mktemp("guessing") / "data", env=env) as server:
        tries = [
            httpx.get(f"{server.url}/metrics", headers=WRONG_KEY, timeout=PATIENCE_SECONDS)
            for _ in range(4)
        ]
        assert [answer.status_code for answer in tries] == [401, 401, 429, 429]
        assert tries[-1].json()["error"]["code"] == "RATE_LIMITED"
        assert int(tries[-1].headers["Retry-After"]) > 0
        for path in ("/ws/session", "/ws/node"):
            url = server.url.replace("http", "ws", 1) + path
            with connect(url, additional_headers=WRONG_KEY) as socket:
                with pytest.raises(ConnectionClosed) as closed:
                    socket.recv(timeout=PATIENCE_SECONDS)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 4429
        assert server.get("/healthz").status_code == 200
