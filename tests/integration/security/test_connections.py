"""Connections that say nothing, or never finish, are few, short and small."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from tests.integration.security.raw import (
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

MEGABYTE = 1 << 20
BIG_FRAME = bytes((0x82, 0x80 | 127)) + MEGABYTE.to_bytes(8, "big") + bytes(4)
"""The beginning of a message of a megabyte."""


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that waits three seconds for a request, and as long for its body.

    Longer than a busy machine stands still: what is sent at once comes in time.
    """
    env = environment(
        DRAGOMAN_LIMITS__REQUEST_HEADER_SECONDS="3", DRAGOMAN_LIMITS__REQUEST_BODY_SECONDS="3"
    )
    with ServerProcess(tmp_path_factory.mktemp("hasty") / "data", env=env) as server:
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that lets an address have eight sockets, and a key four."""
    env = environment(
        DRAGOMAN_AUTH__MODE="keys",
        DRAGOMAN_LIMITS__SOCKETS_PER_ADDRESS="8",
        DRAGOMAN_LIMITS__SOCKETS_PER_KEY="4",
    )
    with ServerProcess(tmp_path_factory.mktemp("strict") / "data", env=env) as server:
        yield server


def test_half_a_request_is_answered_when_its_time_is_over(hasty: ServerProcess) -> None:
    whole = request("Host: localhost", "Connection: close")
    with ExitStack() as stack:
        waiting = [stack.enter_context(connected(hasty.url)) for _ in range(150)]
        for raw in waiting:
            raw.sendall(whole[:-2])
        for raw in waiting:
            assert everything(raw).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed_without_an_answer(hasty: ServerProcess) -> None:
    with connected(hasty.url) as raw:
        assert everything(raw) == b""


def test_a_second_request_that_is_not_finished_is_not_waited_for(hasty: ServerProcess) -> None:
    with connected(hasty.url) as raw:
        raw.sendall(request("Host: localhost") + b"GET /hea")
        answered = everything(raw)
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answered


@pytest.mark.parametrize("header", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_does_not_come_is_not_waited_for(hasty: ServerProcess, header: str) -> None:
    asked = request("Host: localhost", header, method="POST", path="/api/v1/jobs")
    with connected(hasty.url) as raw:
        raw.sendall(asked)
        assert everything(raw).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_takes_long_to_answer_is_not_cut_off(hasty: ServerProcess) -> None:
    body = {"src_lang": "en", "tgt_lang": "es", "text": "hello", "class": "batch", "wait_ms": 4000}
    answer = httpx.post(f"{hasty.url}/api/v1/jobs", json=body, timeout=PATIENCE_SECONDS)
    assert answer.status_code != 408


def test_a_body_in_crumbs_does_not_hold_up_the_others(hasty: ServerProcess) -> None:
    crumbs = b"1\r\nx\r\n" * 20_000
    head = request(
        "Host: localhost",
        "Transfer-Encoding: chunked",
        "Connection: close",
        method="POST",
        path="/api/v1/jobs",
    )
    with connected(hasty.url) as raw:
        raw.sendall(head + crumbs + b"0\r\n\r\n")
        assert everything(raw).startswith(b"HTTP/1.1 422 "), "twenty thousand x are no JSON"


def test_an_address_has_only_so_many_connections(strict: ServerProcess) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connected(strict.url))
        with connected(strict.url) as raw:
            answer = everything(raw)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"limits.sockets_per_address" in answer
    eventually(lambda: strict.get("/healthz").status_code == 200, "there is room again")


def test_a_key_and_an_address_have_only_so_many_sockets(strict: ServerProcess) -> None:
    keys = [_key(strict, "client"), _key(strict, "client"), _key(strict, "node")]
    with ExitStack() as stack:
        # Which of them it is depends on whose key is looked up first.
        opened = [_open(stack, strict, "/ws/session", keys[0]) for _ in range(5)]
        assert _refusal(opened) == (4429, "this key has too many sockets: limits.sockets_per_key")
        opened = [_open(stack, strict, "/ws/session", keys[1]) for _ in range(4)]
        opened.append(_open(stack, strict, "/ws/node", keys[2]))
        assert _refusal(opened) == (
            4429,
            "this address has too many sockets: limits.sockets_per_address",
        )


def _refusal(opened: list[socket.socket]) -> tuple[int, str] | None:
    """How the server closes the first that it closes."""
    closing, _, _ = select.select(opened, [], [], PATIENCE_SECONDS)
    return closed_with(closing[0])


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that keeps four megabytes for others."""
    env = environment(
        DRAGOMAN_LIMITS__BUFFERED_BYTES=str(4 * MEGABYTE),
        DRAGOMAN_LIMITS__SESSION_QUEUE_BYTES=str(MEGABYTE),
        DRAGOMAN_LIMITS__NODE_QUEUE_BYTES=str(MEGABYTE),
    )
    with ServerProcess(tmp_path_factory.mktemp("narrow") / "data", env=env) as server:
        yield server


def test_messages_that_never_end_have_a_bounded_room(narrow: ServerProcess) -> None:
    with ExitStack() as stack:
        holding = [_open(stack, narrow, "/ws/session") for _ in range(12)]
        for raw in holding:
            send_all(raw, BIG_FRAME + bytes(MEGABYTE - 1))
        # With its head, each is a little over a megabyte.
        for raw in _turned_away(holding, until_left=3):
            closed = closed_with(raw)
            # The last bytes may cross with the end, and then the system tells of it first.
            assert closed is None or closed[0] == 4429
        # What was held for the others is free again, and those who were let in can finish.
        for raw in holding:
            raw.sendall(bytes(1))
            closed = closed_with(raw)
            assert closed is not None
            assert closed[0] == 4400, "zeros are no message"


def test_bodies_that_never_end_have_a_bounded_room(narrow: ServerProcess) -> None:
    asked = request(
        "Host: localhost",
        f"Content-Length: {MEGABYTE - 1000}",
        "Connection: close",
        method="POST",
        path="/api/v1/jobs",
    )
    with ExitStack() as stack:
        holding = [stack.enter_context(connected(narrow.url)) for _ in range(12)]
        for raw in holding:
            send_all(raw, asked + bytes(MEGABYTE - 1001))
        for raw in _turned_away(holding, until_left=4):
            answer = everything(raw)
            assert answer.startswith(b"HTTP/1.1 429 ") or not answer
        for raw in holding:
            raw.sendall(bytes(1))
            assert everything(raw).startswith(b"HTTP/1.1 422 "), "zeros are no job"


def test_an_endless_number_is_no_length(hasty: ServerProcess) -> None:
    header = "Content-Length: " + "9" * 10_000
    with connected(hasty.url) as raw:
        raw.sendall(request("Host: localhost", header, method="POST", path="/api/v1/jobs"))
        assert everything(raw).split()[1] in (b"400", b"413")
    assert "Traceback" not in hasty.log


def _turned_away(holding: list[socket.socket], until_left: int) -> Iterator[socket.socket]:
    """Those that the server answers, until only so many are left; each is taken from the list."""
    while len(holding) > until_left:
        answering, _, _ = select.select(holding, [], [], PATIENCE_SECONDS)
        assert answering, f"{len(holding)} megabytes are held where four may be"
        for raw in answering:
            holding.remove(raw)
            yield raw


def _open(
    stack: ExitStack, server: ServerProcess, path: str, key: str | None = None
) -> socket.socket:
    raw = stack.enter_context(connected(server.url))
    lines = [] if key is None else [f"Authorization: Bearer {key}"]
    assert b" 101 " in upgrade(raw, path, *lines)
    return raw


def _key(server: ServerProcess, role: str) -> str:
    code, output, errors = run("keys", "create", "--role", role, "--data-dir", server.data_dir)
    assert code == 0, errors
    return output.splitlines()[-1]
