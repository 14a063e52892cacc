"""Sockets that watch an experiment have the limits of all other sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from tests.integration.security.raw import (
    FIRST_FRAGMENT,
    MIDDLE_FRAGMENT,
    PING,
    closed_with,
    connected,
    everything,
    request,
    send_all,
    upgrade,
)
from tests.integration.serve.server_process import (
    PATIENCE_SECONDS,
    ServerProcess,
    environment,
    eventually,
    run,
)

TEXT_FRAME = bytes((0x81, 0x80)) + bytes(4)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that lets an address have six sockets, and a key three."""
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_LIMITS__SOCKETS_PER_ADDRESS="6",
        DRAGOMAN_LIMITS__SOCKETS_PER_KEY="3",
        DRAGOMAN_LIMITS__MESSAGES_PER_SECOND="200",
        DRAGOMAN_LIMITS__REQUEST_HEADER_SECONDS="2",
    )
    folder = tmp_path_factory.mktemp("watching") / "data"
    with ServerProcess(folder, env=env, lab=True) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> list[str]:
    """Three keys that may watch experiments; the last may open sessions, too."""
    made = []
    for role in ("evaluator", "evaluator", "operator"):
        words = ("keys", "create", "--role", role, "--data-dir", server.data_dir)
        code, output, errors = run(*words)
        assert code == 0, errors
        made.append(output.splitlines()[-1])
    return made


@pytest.fixture(scope="module")
def path(server: ServerProcess, keys: list[str]) -> str:
    """The socket of an experiment that has not begun, so that a watcher may stay."""
    with httpx.Client(
        base_url=f"{server.url}/api/v1",
        headers={"Authorization": f"Bearer {keys[0]}"},
        timeout=PATIENCE_SECONDS,
    ) as caller:
        rows = {"file": ("rows.jsonl", b'{"said": "a", "meant": "a"}\n')}
        version = caller.post("/datasets", data={"name": "rows"}, files=rows).raise_for_status()
        order = {
            "name": "watched",
            "dataset_version_id": version.json()["version_id"],
            "target": {"kind": "recorded", "output": "said"},
            "evaluators": [{"kind": "exact", "reference": "meant"}],
        }
        made = caller.post("/experiments", json=order).raise_for_status()
    return f"/ws/experiments/{made.json()['experiment_id']}"


def opened(stack: ExitStack, server: ServerProcess, path: str, key: str) -> socket.socket:
    raw = stack.enter_context(connected(server.url))
    assert b" 101 " in upgrade(raw, path, f"Authorization: Bearer {key}")
    return raw


def watching(stack: ExitStack, server: ServerProcess, path: str, key: str) -> socket.socket:
    """A socket that has heard how the experiment stands, so that it surely counts."""
    raw = opened(stack, server, path, key)
    assert is_let_in(raw)
    return raw


def is_let_in(raw: socket.socket) -> bool:
    """Whether the first frame is a text; one who is turned away gets a close frame instead."""
    return raw.recv(1, socket.MSG_PEEK)[0] == 0x81


def test_a_key_and_an_address_have_only_so_many_watching_sockets(
    server: ServerProcess, keys: list[str], path: str
) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            watching(stack, server, path, keys[0])
        one_more = opened(stack, server, path, keys[0])
        assert closed_with(one_more) == (
            4429,
            "this key has too many sockets: limits.sockets_per_key",
        )
        for _ in range(3):
            watching(stack, server, path, keys[1])
        one_more = opened(stack, server, path, keys[2])
        assert closed_with(one_more) == (
            4429,
            "this address has too many sockets: limits.sockets_per_address",
        )
        # The limits are shared with the other kinds of socket.
        assert closed_with(opened(stack, server, "/ws/session", keys[2])) == (
            4429,
            "this address has too many sockets: limits.sockets_per_address",
        )

    def has_room() -> bool:
        with ExitStack() as again:
            return is_let_in(opened(again, server, path, keys[0]))

    eventually(has_room, "those who left have made room")


def test_a_crowd_at_once_gets_no_more_than_its_share(
    server: ServerProcess, keys: list[str], path: str
) -> None:
    with ExitStack() as stack:
        crowd = [opened(stack, server, path, keys[1]) for _ in range(40)]
        assert sum(map(is_let_in, crowd)) == 3


@pytest.mark.parametrize(
    "flood",
    [TEXT_FRAME * 20_000, PING * 20_000, (FIRST_FRAGMENT + MIDDLE_FRAGMENT * 500) * 2],
    ids=["messages", "pings", "fragments"],
)
def test_a_watcher_that_sends_too_much_is_closed(
    server: ServerProcess, keys: list[str], path: str, flood: bytes
) -> None:
    with ExitStack() as stack:
        raw = watching(stack, server, path, keys[2])
        send_all(raw, flood)
        close = closed_with(raw)
    # Where the kernel resets the socket over what was sent and not read, the close frame is lost.
    assert close is None or close[0] == 4429


def test_an_upgrade_that_is_never_finished_is_not_waited_for(
    server: ServerProcess, path: str
) -> None:
    head = request("Host: localhost", "Connection: Upgrade", "Upgrade: websocket", path=path)
    with connected(server.url) as raw:
        raw.sendall(head[:-2])
        assert everything(raw).startswith(b"HTTP/1.1 408 ")
