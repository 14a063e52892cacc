"""Tokens: not to be predicted, good for one tenant only, and still good for an honest node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.live_api.manual_node import Socket, registration
from tests.integration.security.mersenne import STATE_WORDS, cloned, words_of
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    run,
)
from tests.servers import RedisProcess
from websockets.sync.client import connect

LANGUAGES = ("en", "es")
Message = dict[str, Any]


@pytest.fixture(scope="module", params=["memory", "redis"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    variables = {"DRAGOMAN_AUTH__MODE": "keys"}
    if request.param == "redis":
        redis: RedisProcess = request.getfixturevalue("redis_server")
        variables |= {
            "DRAGOMAN_CLUSTER__ENABLED": "true",
            "DRAGOMAN_CLUSTER__REDIS_URL": redis.url,
            "DRAGOMAN_CLUSTER__KEY_PREFIX": "tokens",
            "DRAGOMAN_CLUSTER__REDIS_TIMEOUT_MS": "5000",
        }
    data_dir = tmp_path_factory.mktemp(f"tokens-{request.param}") / "data"
    with ServerProcess(data_dir, env=environment(**variables)) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    """Two node keys of tenant red, one of blue, and a client of each."""
    wanted = {
        "red node": ("node", "red"),
        "other red node": ("node", "red"),
        "blue node": ("node", "blue"),
        "red client": ("client", "red"),
        "blue client": ("client", "blue"),
    }
    made = {}
    for name, (role, tenant) in wanted.items():
        arguments = ("--role", role, "--tenant", tenant, "--data-dir", server.data_dir)
        code, output, errors = run("keys", "create", *arguments)
        assert code == 0, errors
        made[name] = output.splitlines()[-1]
    return made


def register(
    server: ServerProcess, key: str, node_id: str | None = None, token: str | None = None
) -> Message:
    """Register a node, and leave again; the answer, be it an ack or an error."""
    message = registration(node_id or "", LANGUAGES, registration_token=token)
    if node_id is None:
        del message["node_id"]
    with Socket(server, key) as socket:
        socket.say(**message)
        return socket.hear()


def open_session(server: ServerProcess, key: str, **fields: Any) -> Message:
    """Open a session, and leave without closing it; its ack."""
    url = server.url.replace("http", "ws", 1) + "/ws/session"
    with connect(url, additional_headers={"Authorization": f"Bearer {key}"}) as socket:
        init = {"type": "session_init", "src_lang": "en", "tgt_lang": "es", **fields}
        socket.send(json.dumps(init))
        ack: Message = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
        assert ack["type"] == "session_init_ack", ack
        return ack


def test_registration_tokens_of_others_cannot_be_predicted_from_ones_own(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    words: list[int] = []
    while len(words) < STATE_WORDS:
        ack = register(server, keys["blue node"])
        words += words_of(ack["node_id"].removeprefix("n-"))
        words += words_of(ack["registration_token"])
    clone = cloned(words)
    victim = register(server, keys["red node"])
    predicted_id, predicted_token = clone.getrandbits(96), clone.getrandbits(256)
    assert victim["node_id"] != f"n-{predicted_id:024x}"
    assert victim["registration_token"] != f"{predicted_token:064x}"


def test_resume_tokens_of_others_cannot_be_predicted_from_ones_own(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    words: list[int] = []
    while len(words) < STATE_WORDS:
        session_id, _, secret = open_session(server, keys["red client"])["resume_token"].rpartition(
            "."
        )
        words += words_of(session_id.removeprefix("s-"))
        words += words_of(secret)
    clone = cloned(words)
    victim = open_session(server, keys["red client"])
    predicted = f"s-{clone.getrandbits(96):024x}.{clone.getrandbits(256):064x}"
    assert victim["resume_token"] != predicted
    assert not open_session(server, keys["red client"], resume_token=predicted)["resumed"]


def test_a_registration_token_is_good_for_its_own_tenant_only(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    mine = register(server, keys["red node"], "translator")
    stolen = register(server, keys["blue node"], "translator", mine["registration_token"])
    assert (stolen["type"], stolen["code"]) == ("error", "NODE_ID_CONFLICT")
    again = register(server, keys["other red node"], "translator", mine["registration_token"])
    assert again["type"] == "node_register_ack"
    assert again["registration_token"] == mine["registration_token"]


def test_a_resume_token_is_good_for_its_own_tenant_only(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    token = open_session(server, keys["red client"])["resume_token"]
    assert not open_session(server, keys["blue client"], resume_token=token)["resumed"]
    assert open_session(server, keys["red client"], resume_token=token)["resumed"]


def test_a_node_chooses_its_name_but_not_its_token(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    ack = register(server, keys["red node"], "careless", "1234")
    assert ack["type"] == "node_register_ack"
    assert ack["registration_token"] != "1234"
    guessed = register(server, keys["other red node"], "careless", "1234")
    assert (guessed["type"], guessed["code"]) == ("error", "NODE_ID_CONFLICT")


def test_a_node_that_lost_its_token_gets_one_that_works(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    register(server, keys["red node"], "forgetful")
    for lost in (None, "0" * 64):
        fresh = register(server, keys["red node"], "forgetful", lost)["registration_token"]
        again = register(server, keys["other red node"], "forgetful", fresh)
        assert (again["type"], again.get("registration_token")) == ("node_register_ack", fresh)
