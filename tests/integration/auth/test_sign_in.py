"""Signing in: a key buys a cookie, which dies with it, and acts only for a page of this server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess, environment, eventually, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

WRONG_KEY = "dgm_" + "w" * 43


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_AUTH__MODE="keys", DRAGOMAN_LIMITS__AUTH_FAILURES_PER_MINUTE="5")
    with ServerProcess(tmp_path_factory.mktemp("sign-in") / "data", env=env) as running:
        yield running


def key_of(server: ServerProcess, role: str, tenant: str = "acme") -> tuple[str, str]:
    """A new key, and its id."""
    options = ("--role", role, "--tenant", tenant, "--data-dir", server.data_dir)
    code, output, errors = run("keys", "create", *options)
    assert code == 0, errors
    return output.split()[-1], errors.split()[1]


class Browser:
    """Keeps cookies as a browser does, and sends the header of the page that it shows."""

    def __init__(self, server: ServerProcess) -> None:
        self.client = httpx.Client(base_url=server.url, timeout=60)
        self.server = server
        self.me: dict[str, Any] = {}

    def sign_in(self, key: str) -> httpx.Response:
        answer = self.client.post("/api/v1/sign-in", json={"key": key})
        if answer.is_success:
            self.me = answer.json()
        return answer

    def post(self, path: str, **headers: str) -> httpx.Response:
        return self.client.post(path, headers={"X-CSRF-Token": self.me["csrf_token"], **headers})

    def status(self, path: str) -> int:
        return self.client.get(path).status_code


@pytest.fixture
def browser(server: ServerProcess) -> Iterator[Browser]:
    browser = Browser(server)
    yield browser
    browser.client.close()


def test_a_key_buys_a_cookie_that_no_script_can_read(
    server: ServerProcess, browser: Browser
) -> None:
    key, _ = key_of(server, "operator")
    assert browser.status("/api/v1/me") == 401
    answer = browser.sign_in(key)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert key not in cookie
    assert key not in answer.text
    assert browser.status("/api/v1/nodes") == 200
    me = browser.client.get("/api/v1/me").json()
    assert (me["auth"], me["role"], me["tenant_id"]) == ("keys", "operator", "acme")
    assert me["csrf_token"] == browser.me["csrf_token"]


def test_a_change_needs_the_word_of_the_page_and_a_question_does_not(
    server: ServerProcess, browser: Browser
) -> None:
    browser.sign_in(key_of(server, "operator")[0])
    drain = "/api/v1/nodes/none/drain"
    assert browser.client.post(drain).status_code == 403
    assert browser.client.post(drain, headers={"X-CSRF-Token": "a guess"}).status_code == 403
    assert browser.client.delete("/api/v1/jobs/none").status_code == 403
    assert browser.post(drain).status_code == 404, "let in, and there is no such node"
    elsewhere = browser.post(drain, Origin="https://evil.example")
    assert elsewhere.status_code == 403
    assert "https://evil.example" in elsewhere.text


def test_a_socket_of_another_site_is_refused_although_the_cookie_came_along(
    server: ServerProcess, browser: Browser
) -> None:
    browser.sign_in(key_of(server, "client")[0])
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    url = server.url.replace("http", "ws") + "/ws/session"
    headers = {"Cookie": cookie}
    with connect(url, additional_headers=headers, origin=Origin("https://evil.example")) as socket:
        with pytest.raises(ConnectionClosed):
            socket.recv(60)
        assert socket.close_code == 4403
    with connect(url, additional_headers=headers) as socket:
        socket.send('{"type": "session_init", "src_lang": "en", "tgt_lang": "es"}')
        assert "session_init_ack" in str(socket.recv(60))


def test_signing_out_ends_it_at_once_and_closes_what_is_open(
    server: ServerProcess, browser: Browser
) -> None:
    browser.sign_in(key_of(server, "client")[0])
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    url = server.url.replace("http", "ws") + "/ws/session"
    with connect(url, additional_headers={"Cookie": cookie}) as socket:
        socket.send('{"type": "session_init", "src_lang": "en", "tgt_lang": "es"}')
        socket.recv(60)
        assert browser.post("/api/v1/sign-out").status_code == 204
        with pytest.raises(ConnectionClosed):
            socket.recv(60)
        assert socket.close_code == 4401
    stolen = httpx.get(server.url + "/api/v1/sessions", headers={"Cookie": cookie}, timeout=60)
    assert stolen.status_code == 401


def test_it_dies_with_its_key(server: ServerProcess, browser: Browser) -> None:
    key, key_id = key_of(server, "operator")
    browser.sign_in(key)
    assert browser.status("/api/v1/stats") in (200, 503)
    code, _, errors = run("keys", "revoke", key_id, "--data-dir", server.data_dir)
    assert code == 0, errors
    eventually(
        lambda: browser.status("/api/v1/me") == 401, "the cookie of a revoked key is refused"
    )


def test_where_the_lab_is_off_there_is_nothing_of_it_to_see(
    server: ServerProcess, browser: Browser
) -> None:
    browser.sign_in(key_of(server, "operator")[0])
    assert {"nodes", "jobs"} <= set(browser.me["sees"])
    assert not {"datasets", "experiments"} & {*browser.me["sees"], *browser.me["acts"]}


def test_a_viewer_sees_and_cannot_act(server: ServerProcess, browser: Browser) -> None:
    browser.sign_in(key_of(server, "viewer")[0])
    assert "nodes" in browser.me["sees"]
    assert browser.me["acts"] == []
    for path in (
        "nodes",
        "pools",
        "sessions",
        "jobs",
        "cluster",
        "cluster/dead-letters",
        "catalog",
    ):
        assert browser.status(f"/api/v1/{path}") == 200, path
    assert browser.status("/metrics") == 200
    for path in ("nodes/n/drain", "nodes/n/resume", "nodes/n/shutdown", "jobs"):
        refused = browser.post(f"/api/v1/{path}")
        assert refused.status_code == 403, path
        assert "operator" in refused.json()["error"]["message"]
    header = {"X-CSRF-Token": browser.me["csrf_token"]}
    for path in ("jobs/j", "sessions/s", "cluster/dead-letters/l"):
        answer = browser.client.delete(f"/api/v1/{path}", headers=header)
        assert answer.status_code == 403, path


def test_what_a_browser_got_is_no_key_to_sign_in_with_and_a_node_does_not_sign_in(
    server: ServerProcess, browser: Browser
) -> None:
    browser.sign_in(key_of(server, "operator")[0])
    (token,) = (value for value in browser.client.cookies.values())
    assert browser.sign_in(token).status_code == 403
    assert browser.sign_in(key_of(server, "node")[0]).status_code == 403


def test_wrong_keys_are_limited_by_address(server: ServerProcess, browser: Browser) -> None:
    statuses = [browser.sign_in(WRONG_KEY).status_code for _ in range(12)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert browser.sign_in(key_of(server, "operator")[0]).status_code == 200, "a good one is let in"


def test_in_open_mode_everyone_is_an_operator_and_there_is_nothing_to_sign_in_to(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        me = server.get("/api/v1/me").json()
        assert (me["auth"], me["role"], me["csrf_token"]) == ("open", "operator", None)
        answer = httpx.post(server.url + "/api/v1/sign-in", json={"key": WRONG_KEY}, timeout=60)
        assert answer.status_code == 422
