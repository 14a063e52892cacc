"""Keys over HTTP, against a real server and a real database."""

from __future__ import annotations

import httpx
from tests.integration.serve.server_process import ServerProcess, eventually, start

WRONG_KEY = "dgm_" + "w" * 43


def new_key(server: ServerProcess, role: str) -> tuple[str, str]:
    """The key and its id, made while the server runs."""
    code, output, errors = start("keys", "create", "--role", role, "--data-dir", server.data_dir)
    assert code == 0, errors
    return output.splitlines()[-1], errors.split()[1]


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_each_key_opens_what_its_role_may_use(keys_server: ServerProcess) -> None:
    operator, _ = new_key(keys_server, "operator")
    client, _ = new_key(keys_server, "client")

    assert refusal(keys_server.get("/metrics")) == (401, "UNAUTHORIZED")
    assert refusal(keys_server.get("/metrics", WRONG_KEY)) == (401, "UNAUTHORIZED")
    assert refusal(keys_server.get("/metrics", "no key at all")) == (401, "UNAUTHORIZED")
    assert refusal(keys_server.get("/metrics", client)) == (403, "FORBIDDEN")
    assert keys_server.get("/metrics", operator).status_code == 200
    assert keys_server.get(f"/metrics?token={operator}").status_code == 200
    assert keys_server.get("/healthz").status_code == 200
    assert keys_server.get("/readyz").status_code == 200


def test_a_revoked_key_stops_working_while_the_server_runs(
    keys_server: ServerProcess,
) -> None:
    key, key_id = new_key(keys_server, "operator")
    assert keys_server.get("/metrics", key).status_code == 200

    code, _, errors = start("keys", "revoke", key_id, "--data-dir", keys_server.data_dir)

    assert code == 0, errors
    eventually(lambda: keys_server.get("/metrics", key).status_code == 401, "the key is refused")


def test_no_key_is_ever_written_to_the_log(keys_server: ServerProcess) -> None:
    key, _ = new_key(keys_server, "operator")
    for path in ("/metrics", "/nowhere", "/healthz"):
        keys_server.get(path, key)
        keys_server.get(f"{path}?token={key}")
        keys_server.get(path, WRONG_KEY)
        keys_server.get(f"{path}?token={WRONG_KEY}")

    assert "server_ready" in keys_server.log
    assert key not in keys_server.log
    assert WRONG_KEY not in keys_server.log
