"""A server inside the test's own event loop, with planes and sockets of the test's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from tests.unit.api.application import settings_in
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.api import (
    Parts,
    Server,
    ServerState,
    Services,
    running_server,
)
from dragoman.data_folder import find_server
from dragoman.errors import CannotStart, SettingsError
from dragoman.settings import Settings

Step = Callable[[], Awaitable[None]]


async def nothing() -> None:
    return None


class NotedPlane:
    """Notes what it is told, and does then what the test wants."""

    def __init__(self, start: Step = nothing, drain: Step = nothing, stop: Step = nothing) -> None:
        self.told: list[str] = []
        self._steps = {"start": start, "drain": drain, "stop": stop}

    async def start(self) -> None:
        await self._take("start")

    async def drain(self) -> None:
        await self._take("drain")

    async def stop(self) -> None:
        await self._take("stop")

    async def _take(self, step: str) -> None:
        self.told.append(step)
        await self._steps[step]()


async def get(server: Server, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url) as client:
        return await client.get(path)


def assembled(*planes: NotedPlane) -> Callable[[Services], Parts]:
    return lambda services: Parts(planes=planes)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path / "data")


def test_planes_start_drain_and_stop_with_the_server(settings: Settings) -> None:
    plane = NotedPlane()

    async def scenario() -> None:
        async with running_server(settings, assemble=assembled(plane)) as server:
            assert plane.told == ["start"]
            found = find_server(settings.server.data_dir)
            assert found is not None
            assert found.url == server.url
        assert server.state is ServerState.STOPPED

    asyncio.run(scenario())

    assert plane.told == ["start", "drain", "stop"]
    assert find_server(settings.server.data_dir) is None


def test_readyz_says_starting_until_every_plane_has_begun(settings: Settings) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    port = int(url.rpartition(":")[2])
    fixed = settings.model_copy(
        update={"server": settings.server.model_copy(update={"port": port})}
    )
    seen: list[tuple[int, str]] = []

    async def look() -> None:
        async with httpx.AsyncClient(base_url=url) as client:
            answer = await client.get("/readyz")
        seen.append((answer.status_code, answer.json()["status"]))

    async def scenario() -> None:
        async with running_server(fixed, assemble=assembled(NotedPlane(start=look, drain=look))):
            await look()

    asyncio.run(scenario())

    assert seen == [(503, "starting"), (200, "ready"), (503, "draining")]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_new_work_is_refused_while_the_server_drains(settings: Settings) -> None:
    async def scenario() -> list[tuple[int, object]]:
        answers: list[tuple[int, object]] = []
        servers: list[Server] = []

        async def ask() -> None:
            answer = await get(servers[0], "/work")
            answers.append((answer.status_code, answer.json()))

        def assemble(services: Services) -> Parts:
            router = APIRouter()

            @router.get("/work")
            async def work() -> str:
                services.lifecycle.check_takes_work()
                return "done"

            return Parts(planes=[NotedPlane(drain=ask)], routers=[router])

        async with running_server(settings, assemble=assemble) as server:
            servers.append(server)
            await ask()
        return answers

    (first, (status, problem)) = asyncio.run(scenario())

    assert first == (200, "done")
    assert status == 503
    assert isinstance(problem, dict)
    assert problem["error"]["code"] == "SERVER_DRAINING"


def test_a_drain_that_takes_too_long_is_cut_short(settings: Settings) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    plane = NotedPlane(drain=hang)
    impatient = settings.model_copy(
        update={"server": settings.server.model_copy(update={"drain_seconds": 0.05})}
    )

    async def scenario() -> None:
        async with running_server(impatient, assemble=assembled(plane)):
            pass

    asyncio.run(scenario())

    assert plane.told == ["start", "drain", "stop"]


def test_a_plane_that_fails_to_drain_or_stop_does_not_keep_the_others_from_it(
    settings: Settings,
) -> None:
    async def fail() -> None:
        raise RuntimeError("out of order")

    bad, good = NotedPlane(drain=fail, stop=fail), NotedPlane()

    async def scenario() -> None:
        async with running_server(settings, assemble=assembled(bad, good)):
            pass

    asyncio.run(scenario())

    assert bad.told == good.told == ["start", "drain", "stop"]


def test_a_plane_that_cannot_start_ends_the_server_cleanly(settings: Settings) -> None:
    async def fail() -> None:
        raise RuntimeError("out of order")

    plane = NotedPlane(start=fail)

    async def scenario() -> None:
        async with running_server(settings, assemble=assembled(plane)):
            pytest.fail("it must not be ready")

    with pytest.raises(RuntimeError, match="out of order"):
        asyncio.run(scenario())
    assert plane.told == ["start", "stop"]
    assert find_server(settings.server.data_dir) is None


def test_a_socket_is_served_beside_the_routes(settings: Settings) -> None:
    async def greet(scope: Scope, receive: Receive, send: Send) -> None:
        greeted = WebSocket(scope, receive, send)
        await greeted.accept()
        await greeted.send_text("hello")
        await greeted.close(1000)

    async def scenario() -> tuple[str | bytes, int | None]:
        parts = Parts(sockets={"/ws/greeting": greet})
        async with running_server(settings, assemble=lambda services: parts) as server:
            url = server.url.replace("http", "ws") + "/ws/greeting"
            async with connect(url) as client:
                greeting = await client.recv()
                with pytest.raises(ConnectionClosed):
                    await client.recv()
                return greeting, client.close_code

    assert asyncio.run(scenario()) == ("hello", 1000)


def test_two_servers_in_one_process_do_not_share_a_folder_either(settings: Settings) -> None:
    async def scenario() -> None:
        async with running_server(settings):
            with pytest.raises(CannotStart, match="in use by another server"):
                async with running_server(settings):
                    pytest.fail("it must not start")

    asyncio.run(scenario())


def test_a_certificate_that_cannot_be_read_is_a_wrong_setting(settings: Settings) -> None:
    named = settings.server.model_copy(update={"tls_cert": "no.pem", "tls_key": "no.key"})

    async def scenario() -> None:
        async with running_server(settings.model_copy(update={"server": named})):
            pytest.fail("it must not start")

    with pytest.raises(SettingsError, match="name PEM files"):
        asyncio.run(scenario())
