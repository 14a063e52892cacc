"""What links rely on in the WebSocket library: a new version that breaks one is named here."""

from __future__ import annotations

import inspect

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.uri import parse_uri


@pytest.mark.parametrize(
    "name", ["data_received", "connection_lost", "send_data", "drain", "wait_closed", "close"]
)
def test_the_connection_has_the_methods_that_links_call_or_extend(name: str) -> None:
    assert inspect.isfunction(getattr(ClientConnection, name))


def test_connecting_takes_a_kind_of_connection_of_one_s_own() -> None:
    assert "create_connection" in inspect.signature(connect.__init__).parameters


def test_the_connection_says_while_its_writes_are_paused() -> None:
    source = inspect.getsource(ClientConnection.__mro__[1])
    assert "self.paused = True" in source
    assert "self.paused = False" in source


def test_the_protocol_can_be_failed_and_says_its_state_and_how_it_closed() -> None:
    protocol = ClientProtocol(parse_uri("ws://127.0.0.1:8080"))
    states = [protocol.state]
    assert list(inspect.signature(protocol.fail).parameters) == ["code", "reason"]
    protocol.receive_eof()
    states.append(protocol.state)
    assert states == [State.CONNECTING, State.CLOSED]
    assert isinstance(protocol.close_exc, ConnectionClosed)
    assert protocol.close_exc.rcvd is None
