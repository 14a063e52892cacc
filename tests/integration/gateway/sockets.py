"""A real server for an endpoint, and a client over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvicorn
import uvloop
from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed as SocketClosed
from websockets.typing import Subprotocol

from dragoman.live.budget import ByteBudget
from dragoman.live.gateway import (
    ConnectionClosed,
    Endpoint,
    Frame,
    TransportLimits,
    WebSocketApp,
    WireClosed,
    uvicorn_options,
)
from dragoman.live.protocol import TO_CLIENT, Message, SchedulerToClient, SubProtocol, encode

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run(main: Callable[[], Awaitable[T]], loop: str = "uvloop") -> T:
    """Run on the named kind of loop; the server runs on uvloop where there is one."""

    async def awaited() -> T:
        return await main()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(awaited())


def transport_limits(endpoint: Endpoint[Any]) -> TransportLimits:
    return TransportLimits(
        max_frame_bytes=endpoint.limits.max_frame_bytes, budget=ByteBudget(1 << 30)
    )


@asynccontextmanager
async def serving(
    endpoint: Endpoint[Any], transport: TransportLimits | None = None, **options: Any
) -> AsyncIterator[str]:
    """Serve an endpoint as a FastAPI application does, and yield its URL."""
    app = FastAPI()
    app.router.routes.append(WebSocketRoute("/ws/session", WebSocketApp(endpoint)))
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(
        app,
        lifespan="off",
        **uvicorn_options(transport or transport_limits(endpoint)),
        **options,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}/ws/session"
    finally:
        server.should_exit = True
        await task
        listening.close()


class SocketClient:
    """A client over WebSocket, with the surface of the in-memory one."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.sub = SubProtocol(websocket.subprotocol or SubProtocol.JSON.value)

    async def send(self, message: Message) -> None:
        await self.send_frame(encode(message, self.sub))

    async def send_frame(self, frame: Frame) -> None:
        try:
            await self.websocket.send(frame)
        except SocketClosed as closed:
            raise _as_closed(closed) from None

    async def receive(self) -> SchedulerToClient:
        return TO_CLIENT.decode(await self.receive_frame(), self.sub)

    async def receive_frame(self) -> Frame:
        try:
            return await self.websocket.recv()
        except SocketClosed as closed:
            raise _as_closed(closed) from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self.websocket.close(code, reason)

    def break_off(self) -> None:
        """Drop the socket without a word."""
        self.websocket.transport.abort()


@asynccontextmanager
async def dialled(
    url: str, offered: Sequence[str] = (), headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[SocketClient]:
    async with connect(
        url,
        subprotocols=[Subprotocol(name) for name in offered] or None,
        additional_headers=headers,
        compression=None,
        **options,
    ) as websocket:
        yield SocketClient(websocket)


def _as_closed(closed: SocketClosed) -> ConnectionClosed:
    received = closed.rcvd
    return ConnectionClosed(
        WireClosed(received.code, received.reason) if received else WireClosed(1006)
    )
