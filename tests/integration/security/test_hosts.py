"""Pages that had their own name resolve to this machine read nothing and change nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.integration.security.raw import closed_with, connected, everything, request, upgrade
from tests.integration.serve.server_process import ServerProcess, environment

SERVED = ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]", "app.example"]
OTHERS = ["evil.example", "localhost.evil.example", "10.1.2.3", "0.0.0.0", "app.example.evil", ""]
PATHS = ["/healthz", "/metrics", "/api/v1/nodes", "/openapi.json", "/api/v1/nothing"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    env = environment(DRAGOMAN_SERVER__ALLOWED_ORIGINS="https://app.example")
    with ServerProcess(tmp_path_factory.mktemp("hosts") / "data", env=env) as server:
        yield server


def status(server: ServerProcess, host: str, path: str = "/healthz", *lines: str) -> int:
    return answer(server, request(f"Host: {host}", "Connection: close", *lines, path=path))[0]


def answer(server: ServerProcess, asked: bytes) -> tuple[int, str]:
    with connected(server.url) as raw:
        raw.sendall(asked)
        head, _, body = everything(raw).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def socket_code(server: ServerProcess, path: str, host: str, *lines: str) -> int | None:
    """How a socket is closed; None: it is still open when it is asked for a message."""
    with connected(server.url) as raw:
        assert b" 101 " in upgrade(raw, path, *lines, host=host)
        raw.sendall(bytes((0x81, 0x80)) + bytes(4))  # an empty text: answered, or closed before
        closed = closed_with(raw)
        return closed[0] if closed else None


@pytest.mark.parametrize("port", ["", ":80", ":9999"])
def test_its_own_names_are_served_whatever_the_port(server: ServerProcess, port: str) -> None:
    assert [status(server, host + port) for host in SERVED] == [200] * len(SERVED)


@pytest.mark.parametrize("path", PATHS)
def test_other_names_are_served_nothing(server: ServerProcess, path: str) -> None:
    assert [status(server, host, path) for host in OTHERS] == [403] * len(OTHERS)
    assert status(server, "evil.example", path, "Origin: http://evil.example") == 403


def test_a_refusal_says_what_to_do(server: ServerProcess) -> None:
    _, body = answer(server, request("Host: evil.example", "Connection: close"))
    error = json.loads(body)["error"]
    assert error["code"] == "FORBIDDEN"
    assert "server.allowed_origins" in error["message"]


def test_a_request_without_a_host_is_refused(server: ServerProcess) -> None:
    assert answer(server, b"GET /metrics HTTP/1.0\r\n\r\n")[0] == 403


@pytest.mark.parametrize(
    "path", ["/ws/session", "/ws/node", "/ws/experiments", "/ws/experiments/e-1"]
)
def test_sockets_for_other_names_are_closed(server: ServerProcess, path: str) -> None:
    own_page = "Origin: http://evil.example"
    protocol = "Sec-WebSocket-Protocol: dragoman.json.v1"
    assert socket_code(server, path, "evil.example", own_page) == 4403
    assert socket_code(server, path, "evil.example", own_page, protocol) == 4403
    assert socket_code(server, path, "") == 4403


def test_sockets_for_its_own_names_are_opened(server: ServerProcess) -> None:
    # 4400: the first message was none.
    assert socket_code(server, "/ws/session", "localhost:80", "Origin: http://localhost") == 4400
    assert socket_code(server, "/ws/node", "[::1]") == 4400


def test_a_page_that_hides_its_origin_gets_nothing(server: ServerProcess) -> None:
    for method in ("GET", "POST", "DELETE"):
        asked = request(
            "Host: localhost",
            "Origin: null",
            "Content-Length: 0",
            "Connection: close",
            method=method,
            path="/api/v1/jobs",
        )
        assert answer(server, asked)[0] == 403
    assert socket_code(server, "/ws/session", "localhost", "Origin: null") == 4403


def test_with_keys_every_name_is_served_because_a_page_has_no_key(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    env = environment(DRAGOMAN_AUTH__MODE="keys", DRAGOMAN_SERVER__HOST="0.0.0.0")
    with ServerProcess(tmp_path_factory.mktemp("named") / "data", env=env) as server:
        assert status(server, "machine.example:8080") == 200
        assert status(server, "machine.example:8080", "/metrics") == 401


def test_open_to_all_addresses_it_answers_to_addresses_and_to_its_machine_s_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    env = environment(DRAGOMAN_AUTH__INSECURE="true", DRAGOMAN_SERVER__HOST="0.0.0.0")
    with ServerProcess(tmp_path_factory.mktemp("insecure") / "data", env=env) as server:
        port = urlsplit(server.url).port
        names = ["localhost", "10.1.2.3", "[2001:db8::1]", socket.gethostname()]
        assert [status(server, f"{name}:{port}") for name in names] == [200] * len(names)
        assert status(server, f"evil.example:{port}") == 403
