"""Sockets are told when the server goes away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.api.application import settings_in
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from dragoman.api import Parts, Server, Services, running_server
from dragoman.auth import Permission
from dragoman.errors import InvalidMessage
from dragoman.live.gateway import CloseCode, Connection, ConnectionLimits, Endpoint, WebSocketApp
from dragoman.live.protocol import FROM_CLIENT, ClientToScheduler


class Listening:
    """A handler that only listens."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def opened(self, connection: Connection) -> None:
        self.told.set()

    async def received(self, message: ClientToScheduler, now: float) -> None:
        return None

    async def malformed(self, error: InvalidMessage) -> None:
        return None

    async def closed(self, code: int, reason: str) -> None:
        return None


def session_socket(services: Services, handler: Listening) -> WebSocketApp[ClientToScheduler]:
    endpoint = Endpoint(
        name="session",
        decoder=FROM_CLIENT,
        authenticator=services.authenticator,
        permission=Permission.SESSION_SOCKET,
        handler=lambda caller: handler,
        limits=ConnectionLimits(
            max_frame_bytes=1000, queue_messages=10, queue_bytes=10_000, messages_per_second=100
        ),
        connections=services.connections,
        clock=services.clock,
        random=services.randomness.stream("connections"),
    )
    return WebSocketApp(endpoint)


class OneCallMore:
    """A plane that, while the server drains, has one more caller try to come in."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.code_of_latecomer: int | None = None
        self.sockets_open: int | None = None

    async def start(self) -> None:
        return None

    async def drain(self) -> None:
        assert self.server is not None
        self.sockets_open = len(self.server.services.connections)
        async with connect(socket_url(self.server)) as latecomer:
            self.code_of_latecomer = await close_code(latecomer)

    async def stop(self) -> None:
        return None


def socket_url(server: Server) -> str:
    return server.url.replace("http", "ws") + "/ws/session"


async def close_code(socket: ClientConnection) -> int | None:
    """The code that the socket is closed with, once it is."""
    with pytest.raises(ConnectionClosed):
        await socket.recv()
    return socket.close_code


def test_open_sockets_stay_through_the_drain_and_are_then_closed_with_1001(tmp_path: Path) -> None:
    plane, handler = OneCallMore(), Listening()

    def assemble(services: Services) -> Parts:
        return Parts(planes=[plane], sockets={"/ws/session": session_socket(services, handler)})

    async def scenario() -> int | None:
        async with running_server(settings_in(tmp_path), assemble=assemble) as server:
            plane.server = server
            socket = await connect(socket_url(server))
            await handler.told.wait()
            watching = asyncio.create_task(close_code(socket))
        assert len(server.services.connections) == 0
        return await watching

    assert asyncio.run(scenario()) == CloseCode.DRAINING
    assert plane.sockets_open == 1
    assert plane.code_of_latecomer == CloseCode.DRAINING
