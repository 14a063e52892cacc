"""What the gateway takes for granted of uvicorn and websockets beyond what they document.

Each test names one assumption. When a new release breaks one, its name says which.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.speedups import apply_mask

from dragoman.live.gateway.uvicorn_server import SocketProtocol

FROM_UVICORN = (
    "close_sent",
    "conn",
    "handshake_initiated",
    "loop",
    "queue",
    "read_paused",
    "transport",
    "writable",
)
METHODS = (
    "connection_lost",
    "data_received",
    "handle_connect",
    "handle_parser_exception",
    "handle_ping",
    "pause_writing",
    "receive",
    "resume_writing",
    "send",
    "shutdown",
)


@pytest.fixture
def made() -> WebSocketsSansIOProtocol:
    loop = asyncio.new_event_loop()
    try:
        return WebSocketsSansIOProtocol(
            Config(app=lambda scope: None, log_config=None), ServerState(), {}, _loop=loop
        )
    finally:
        loop.close()


@pytest.mark.parametrize("name", FROM_UVICORN)
def test_uvicorns_protocol_has_the_attribute(made: WebSocketsSansIOProtocol, name: str) -> None:
    assert hasattr(made, name)


@pytest.mark.parametrize("name", METHODS)
def test_uvicorns_protocol_has_the_method(name: str) -> None:
    assert callable(getattr(WebSocketsSansIOProtocol, name))


def test_websockets_keeps_its_state_where_the_property_reads_it() -> None:
    protocol = ServerProtocol()
    assert protocol._state is protocol.state is State.CONNECTING
    tree = ast.parse(textwrap.dedent(inspect.getsource(ServerProtocol.state.fget)))  # type: ignore[attr-defined]
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert read == {"_state"}


def test_websockets_masks_in_c() -> None:
    assert not inspect.isfunction(apply_mask)
    assert apply_mask(b"abcde", b"\x01\x02\x03\x04") == b"````d"


def test_uvicorn_hands_sockets_over_by_data_received_alone() -> None:
    """Bytes that came with the handshake reach the protocol as any others do."""
    assert not hasattr(WebSocketsSansIOProtocol, "buffer_updated")
    assert issubclass(SocketProtocol, WebSocketsSansIOProtocol)


def test_both_libraries_are_pinned_to_a_range_that_was_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    needed = {one.name: one for one in map(Requirement, project["project"]["dependencies"])}
    for name in ("uvicorn", "websockets"):
        bounds = {one.operator for one in needed[name].specifier}
        assert bounds == {">=", "<"}, f"{name}: {needed[name]}"
