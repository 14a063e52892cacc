"""What no key vouches for is counted for each address, and refused when it is too much."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.serve.server_process import ServerProcess, environment, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

OPEN_REQUESTS = 40
SIGN_INS = 4
FAILURES = 5
WRONG_KEY = "dgm_" + "w" * 43

OPEN_ROUTES = [
    ("GET", "/"),
    ("GET", "/nodes"),
    ("GET", "/assets/none.js"),
    ("GET", "/docs"),
    ("GET", "/docs/start.js"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing/at/all"),
    ("GET", "/api/v1/me"),
    ("POST", "/api/v1/sign-in"),
    ("POST", "/api/v1/sign-out"),
    ("GET", "/api/v1/jobs"),
    ("POST", "/api/v1/nodes/none/drain"),
    ("GET", "/api/v1/nothing"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_SERVER__TRUSTED_PROXIES='["127.0.0.1"]',
        DRAGOMAN_LIMITS__OPEN_REQUESTS_PER_MINUTE=str(OPEN_REQUESTS),
        DRAGOMAN_LIMITS__SIGN_INS_PER_MINUTE=str(SIGN_INS),
        DRAGOMAN_LIMITS__AUTH_FAILURES_PER_MINUTE=str(FAILURES),
    )
    with ServerProcess(tmp_path_factory.mktemp("rates") / "data", env=env) as running:
        yield running


@pytest.fixture
def key(server: ServerProcess) -> str:
    code, output, errors = run(
        "keys", "create", "--role", "operator", "--data-dir", server.data_dir
    )
    assert code == 0, errors
    return output.split()[-1]


class Caller:
    """Asks from an address of its own, as a proxy tells it."""

    _last = 0

    def __init__(self, server: ServerProcess) -> None:
        Caller._last += 1
        self.headers = {"X-Forwarded-For": f"198.51.100.{Caller._last}"}
        self.server = server
        self.client = httpx.Client(base_url=server.url, headers=self.headers, timeout=60)

    def ask(self, method: str, path: str, key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return self.client.request(method, path, headers=headers)

    def use_up(self) -> None:
        for _ in range(OPEN_REQUESTS):
            assert self.ask("GET", "/nothing/here").status_code == 404

    def ask_beyond(self, method: str, path: str, key: str | None = None) -> httpx.Response:
        """The same once all is used up; on a slow machine some has come back meanwhile."""
        for _ in range(OPEN_REQUESTS):
            answer = self.ask(method, path, key)
            if answer.status_code == 429:
                break
        return answer

    def close_code_of(self, path: str, **headers: str) -> int | None:
        url = self.server.url.replace("http", "ws") + path
        with connect(url, additional_headers={**self.headers, **headers}) as opened:
            with suppress(ConnectionClosed):
                while True:  # an `error` may come first
                    opened.recv(60)
            return opened.close_code


@pytest.fixture
def caller(server: ServerProcess) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.client.close()


def test_an_address_that_asks_too_often_without_a_key_is_refused_everywhere_but_at_the_probes(
    caller: Caller, key: str
) -> None:
    caller.use_up()
    for method, path in OPEN_ROUTES:
        answer = caller.ask_beyond(method, path)
        assert answer.status_code == 429, (method, path)
        assert answer.json()["error"]["code"] == "RATE_LIMITED"
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["error"]["details"]["retry_after_ms"] > 0
    for _ in range(OPEN_REQUESTS + 1):
        assert caller.ask("GET", "/healthz").status_code == 200
    assert caller.ask("GET", "/readyz").status_code == 200
    assert caller.ask("GET", "/api/v1/jobs", key).status_code == 200, "its key vouches for it"


@pytest.mark.parametrize(
    ("path", "status"), [("/api/v1/me", 200), ("/docs", 200), ("/", 200), ("/none/such", 404)]
)
@pytest.mark.parametrize("shown", ["header", "query", "cookie"])
def test_a_right_key_is_let_in_everywhere_from_an_address_that_has_used_up_its_requests(
    server: ServerProcess, caller: Caller, key: str, path: str, status: int, shown: str
) -> None:
    headers = {"Authorization": f"Bearer {key}"} if shown == "header" else {}
    asked = {"token": key} if shown == "query" else {}
    if shown == "cookie":
        signed_in = caller.client.post("/api/v1/sign-in", json={"key": key})
        cookies = signed_in.headers["Set-Cookie"].partition(";")[0]
        caller.client.cookies.clear()
        headers = {"Cookie": cookies}
        for _ in range(OPEN_REQUESTS - 1):
            caller.ask("GET", "/nothing/here")
    else:
        caller.use_up()
    for _ in range(3):  # the first may look the key up, the others not
        answer = caller.client.get(path, headers=headers, params=asked)
        assert answer.status_code == status, answer.text
    assert caller.ask_beyond("GET", "/docs").status_code == 429
    assert caller.ask_beyond("GET", "/docs", WRONG_KEY).status_code == 429


def test_a_right_key_on_a_path_that_does_not_exist_is_not_counted(caller: Caller, key: str) -> None:
    caller.use_up()
    assert caller.ask("GET", "/api/v1/none", key).status_code == 404


def test_preflights_are_counted_and_pages_of_other_origins_can_read_the_refusal(
    tmp_path: Path,
) -> None:
    origin = "https://talk.example.org"
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_SERVER__ALLOWED_ORIGINS=f'["{origin}"]',
        DRAGOMAN_LIMITS__OPEN_REQUESTS_PER_MINUTE="5",
    )
    with ServerProcess(tmp_path / "data", env=env) as server:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answers = [
            httpx.options(f"{server.url}/api/v1/jobs", headers=asked, timeout=60) for _ in range(7)
        ]
        assert [one.status_code for one in answers] == [200] * 5 + [429] * 2
        assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert answers[-1].headers["X-Content-Type-Options"] == "nosniff"
        refused = httpx.get(f"{server.url}/docs", headers={"Origin": origin}, timeout=60)
        assert refused.status_code == 429
        assert refused.headers["Access-Control-Allow-Origin"] == origin
        probe = httpx.options(f"{server.url}/healthz", headers=asked, timeout=60)
        assert probe.status_code == 200


def test_the_addresses_that_a_trusted_proxy_names_are_counted_apart(
    server: ServerProcess, caller: Caller
) -> None:
    caller.use_up()
    assert caller.ask_beyond("GET", "/docs").status_code == 429
    other = Caller(server)
    assert other.ask("GET", "/docs").status_code == 200
    other.client.close()


def test_sign_ins_are_limited_even_with_a_right_key(caller: Caller, key: str) -> None:
    def sign_in() -> httpx.Response:
        return caller.client.post("/api/v1/sign-in", json={"key": key})

    assert [sign_in().status_code for _ in range(SIGN_INS)] == [200] * SIGN_INS
    refused = sign_in()
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["error"]["code"] == "RATE_LIMITED"


def test_wrong_keys_at_sign_in_and_on_sockets_count_together(caller: Caller) -> None:
    for _ in range(SIGN_INS - 1):
        answer = caller.client.post("/api/v1/sign-in", json={"key": WRONG_KEY})
        assert answer.status_code == 401
    for _ in range(FAILURES - SIGN_INS + 1):
        assert caller.close_code_of(f"/ws/session?token={WRONG_KEY}") == 4401
    assert caller.close_code_of(f"/ws/session?token={WRONG_KEY}") == 4429
    assert caller.client.post("/api/v1/sign-in", json={"key": WRONG_KEY}).status_code == 429


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node", "/ws/console", "/ws/listen/s-1"])
def test_a_handshake_without_a_key_counts_as_a_request(caller: Caller, path: str) -> None:
    assert caller.close_code_of(path) in (1008, 4401)
    for _ in range(OPEN_REQUESTS - 1):
        caller.ask("GET", "/nothing/here")
    assert caller.close_code_of(path) == 4429


def test_guessed_listen_tokens_are_counted_as_wrong_keys(caller: Caller) -> None:
    guess = "lt-" + "a" * 64
    codes = [caller.close_code_of(f"/ws/listen/s-1?token={guess}") for _ in range(FAILURES)]
    assert codes == [1008] * FAILURES
    assert caller.close_code_of(f"/ws/listen/s-1?token={guess}") == 4429


def test_addresses_that_do_not_exist_are_counted_with_any_key(caller: Caller) -> None:
    statuses = {caller.ask("GET", "/api/v1/none", WRONG_KEY).status_code for _ in range(5)}
    assert statuses == {404}
    for _ in range(OPEN_REQUESTS):
        caller.ask("GET", "/api/v1/none", WRONG_KEY)
    assert caller.ask_beyond("GET", "/api/v1/none", WRONG_KEY).status_code == 429


def test_in_open_mode_pages_are_limited_and_the_api_is_not(tmp_path: Path) -> None:
    env = environment(DRAGOMAN_LIMITS__OPEN_REQUESTS_PER_MINUTE="3")
    with ServerProcess(tmp_path / "data", env=env) as server:
        assert [server.get("/docs").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert server.get("/api/v1/jobs").status_code == 200
        assert server.get("/healthz").status_code == 200


def test_what_is_no_http_is_refused_in_the_form_of_every_refusal(server: ServerProcess) -> None:
    at = urlsplit(server.url)
    with socket.create_connection((at.hostname or "", at.port or 0), timeout=60) as raw:
        raw.sendall(b"what is this\r\n\r\n")
        answer = b""
        while part := raw.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"x-content-type-options: nosniff" in answer
    assert b'"code":"INVALID_MESSAGE"' in answer
