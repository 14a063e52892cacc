"""Frames that are no messages cost their sender, and never hold up the others."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from tests.integration.gateway.sockets import run, serving
from tests.integration.security.raw import (
    FIRST_FRAGMENT,
    MIDDLE_FRAGMENT,
    PING,
    closed_with,
    connected,
    everything,
    send_all,
    upgrade,
)
from tests.integration.serve.server_process import ServerProcess, environment
from tests.unit.gateway.scripted import CLIENT_KEY, LIMITS, scripted_endpoint

from dragoman.clock import SystemClock

PONG = bytes((0x8A, 0x80)) + bytes(4)
FRAMES_IN_A_TURN = 64


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    # A thousand frames a second would be refused; no test needs that many to be read.
    env = environment(
        DRAGOMAN_LIMITS__MESSAGES_PER_SECOND="200", DRAGOMAN_LIMITS__NODE_MESSAGES_PER_SECOND="200"
    )
    with ServerProcess(tmp_path_factory.mktemp("frames") / "data", env=env) as server:
        yield server


@pytest.mark.parametrize("path", ["/ws/session", "/ws/node"])
@pytest.mark.parametrize(
    "flood",
    [PING * 20_000, PONG * 20_000, (FIRST_FRAGMENT + MIDDLE_FRAGMENT * 500) * 2],
    ids=["pings", "pongs", "fragments"],
)
def test_frames_that_are_no_messages_count_as_messages(
    server: ServerProcess, path: str, flood: bytes
) -> None:
    with connected(server.url) as raw:
        assert b" 101 " in upgrade(raw, path)
        send_all(raw, flood)
        close = closed_with(raw)
    # Where the kernel resets the socket over what was sent and not read, the close frame is lost.
    assert close is None or close[0] == 4429


def test_a_message_of_endless_fragments_is_refused(server: ServerProcess) -> None:
    env = environment(DRAGOMAN_LIMITS__MESSAGES_PER_SECOND="1000000")
    endless = FIRST_FRAGMENT + MIDDLE_FRAGMENT * 20_000
    data_dir = server.data_dir.with_name("endless")
    with ServerProcess(data_dir, env=env) as patient, connected(patient.url) as raw:
        upgrade(raw, "/ws/session")
        send_all(raw, endless)
        close = closed_with(raw)
    assert close is not None
    assert close[0] == 1008
    assert "fragments" in close[1]


@pytest.mark.parametrize(
    ("flood", "handled_in"),
    [
        (PING * 5_000, {"recv_frame"}),
        (FIRST_FRAGMENT + MIDDLE_FRAGMENT * 1_000, {"recv_frame", "_take_part"}),
    ],
    ids=["pings", "fragments"],
)
def test_one_socket_has_a_bounded_share_of_each_turn(flood: bytes, handled_in: set[str]) -> None:
    """Counted, not timed: how many frames are handled before the others are asked again."""
    handled = 0
    most_in_a_turn = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal handled
        if event == "call" and frame.f_code.co_name in handled_in:
            handled += 1

    async def main() -> None:
        nonlocal most_in_a_turn
        unlimited = replace(LIMITS, messages_per_second=0)
        endpoint = scripted_endpoint([], SystemClock(), limits=unlimited)
        loop = asyncio.get_running_loop()
        async with serving(endpoint) as url:
            flooding = loop.run_in_executor(None, flood_it, url)
            sys.setprofile(count)
            try:
                while not flooding.done():
                    before = handled
                    await asyncio.sleep(0)
                    most_in_a_turn = max(most_in_a_turn, handled - before)
            finally:
                sys.setprofile(None)
            await flooding

    def flood_it(url: str) -> None:
        with connected(url) as raw:
            key = f"Authorization: Bearer {CLIENT_KEY.reveal()}"
            assert b" 101 " in upgrade(raw, "/ws/session", key)
            raw.sendall(flood + bytes((0x88, 0x80)) + bytes(4))
            everything(raw)

    run(main, loop="asyncio")
    assert handled > 900
    assert most_in_a_turn <= FRAMES_IN_A_TURN


def test_a_peer_that_pings_and_never_reads_gets_one_answer_not_a_pile() -> None:
    """What the server keeps for it stays small: the transport's own buffer, and one pong."""
    waiting: list[int] = []

    async def main() -> None:
        unlimited = replace(LIMITS, messages_per_second=0)
        endpoint = scripted_endpoint([], SystemClock(), limits=unlimited)
        big_ping = bytes((0x89, 0x80 | 125)) + bytes(4 + 125)
        async with serving(endpoint) as url:

            def ping_only() -> None:
                with connected(url) as raw:
                    key = f"Authorization: Bearer {CLIENT_KEY.reveal()}"
                    upgrade(raw, "/ws/session", key)
                    for _ in range(100):
                        raw.sendall(big_ping * 1_000)

            pinging = asyncio.get_running_loop().run_in_executor(None, ping_only)
            while not pinging.done():
                await asyncio.sleep(0)
                for connection in endpoint.connections:
                    waiting.append(_unsent_bytes(connection))
            await pinging

    run(main, loop="asyncio")
    assert max(waiting) < 1 << 20, "a hundred thousand pongs are over twelve megabytes"


def _unsent_bytes(connection: Any) -> int:
    protocol = connection._wire.write_now.__self__
    size: int = protocol.transport.get_write_buffer_size()
    return size
