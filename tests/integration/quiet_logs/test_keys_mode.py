"""A server that asks for keys, with its log as loud as it gets: no key, no token, no word."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.integration.live_api.manual_node import Caller, ManualNode, Socket, registration
from tests.integration.quiet_logs.talker import SECRETS, WORDS, Talker, assert_quiet
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    run,
)
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

WRONG_KEYS = ("dgm_" + "w" * 43, "hunter2-was-here")
LANGUAGES = ("en", "es")


def new_key(server: ServerProcess, role: str) -> str:
    code, output, errors = run("keys", "create", "--role", role, "--data-dir", server.data_dir)
    assert code == 0, errors
    return output.splitlines()[-1]


def knock(server: ServerProcess, path: str, key: str) -> None:
    """Try to come in with a key, by header and by address."""
    by_header = {"Authorization": f"Bearer {key}"}
    if not path.startswith("/ws"):
        httpx.get(server.url + path, headers=by_header, timeout=PATIENCE_SECONDS)
        httpx.get(f"{server.url}{path}?token={key}", timeout=PATIENCE_SECONDS)
        return
    url = server.url.replace("http", "ws", 1) + path
    for address, headers in ((url, by_header), (f"{url}?token={key}", {})):
        with (
            connect(address, additional_headers=headers) as socket,
            pytest.raises(ConnectionClosed),
        ):
            socket.recv(timeout=PATIENCE_SECONDS)


def work(server: ServerProcess, keys: dict[str, str]) -> list[str]:
    """A node that fails loudly, then works; the tokens it was given."""
    caller = Caller(server, keys["client"])
    with ManualNode(server, LANGUAGES, key=keys["node"], node_id="n-1") as node:
        asking = caller.begin_to_ask(LANGUAGES, text=WORDS, wait_ms=30_000)
        error = {"code": "TTS_FAILED", "message": f"cannot say {WORDS}", "details": {"text": WORDS}}
        job = node.take()
        attempt = {"job_id": job["job_id"], "attempt_id": job["attempt_id"]}
        node.say(type="job_partial", text=WORDS, is_final=False, **attempt)
        node.say(type="job_result", success=False, error={**error, "retryable": False}, **attempt)
        assert asking.result().json()["error"]["code"] == "TTS_FAILED"
        node.say(type="node_error", code="ODD", message=f"it said {WORDS}")
        node.say(type="job_result", success=WORDS, text_asr=WORDS)

        asking = caller.begin_to_ask(LANGUAGES, text=WORDS, wait_ms=30_000)
        node.succeed(node.take(), text_translated=WORDS, extra={"notes": WORDS})
        assert asking.result().json()["outcome"] == "success"
        token = node.ack["registration_token"]
    caller.close()
    with Socket(server, keys["node"]) as stranger:
        stranger.say(**registration("n-1", LANGUAGES, registration_token="x" + WORDS))
        stranger.hear()
    return [token] if token else []


def test_neither_keys_nor_words_are_written_at_any_level(tmp_path: Path) -> None:
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_LOG__FORMAT="json",
        DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="1",
    )
    with ServerProcess(tmp_path / "data", "--log-level", "debug", env=env) as server:
        keys = {role: new_key(server, role) for role in ("node", "client", "operator")}
        for path in ("/api/v1/jobs", "/metrics", "/nowhere", "/ws/node", "/ws/session"):
            for key in WRONG_KEYS:
                knock(server, path, key)
        knock(server, "/metrics", keys["operator"])
        knock(server, "/ws/node", keys["client"])
        knock(server, "/ws/session", keys["node"])
        tokens = work(server, keys)
        talker = Talker(server.url, keys["client"])
        talker.type(*LANGUAGES)
        talker.speak(*LANGUAGES)
        talker.babble()
        server.signal()
        assert server.wait() == 0
        written = server.all_output()
    assert "server_ready" in written
    assert "node_registered" in written
    assert talker.heard, "a resume_token at least"
    assert_quiet(written, [*SECRETS, *keys.values(), *WRONG_KEYS, *tokens, *talker.heard])
