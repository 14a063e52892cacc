"""The lab's process under its server: asked through it, replaced when it dies, gone when it goes.

A stand-in takes the place of the lab, so that each way of dying can be had at will.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter
from tests.servers.programs import wait_until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from dragoman.api import Parts, Server, Services, running_server
from dragoman.api.lab import child as child_module
from dragoman.api.lab.child import LabChild
from dragoman.api.lab.forwarding import Forwarder, forwarded
from dragoman.api.lab.meeting_point import SOCKET_FILE
from dragoman.api.lab.plane import LabPlane
from dragoman.api.lab.push_forwarding import PushForwarder
from dragoman.auth import ApiKey, KeyStore, Permission, Role
from dragoman.settings import Settings, load_settings

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(child_module, "LONGEST_PAUSE_SECONDS", 0.2)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where every child that was started writes a line."""
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv("CHILD_NOTES", str(path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return path


def settings_in(folder: Path, mode: str = "open") -> Settings:
    flags = {"server": {"data_dir": folder, "port": 0, "drain_seconds": 2}, "auth": {"mode": mode}}
    return load_settings(None, flags).settings


@asynccontextmanager
async def server_with_child(
    settings: Settings, mode: str = "well"
) -> AsyncIterator[tuple[Server, LabChild]]:
    made: list[LabChild] = []

    def assemble(services: Services) -> Parts:
        command = (sys.executable, "-m", "tests.integration.lab_api.standing_child", mode)
        child = LabChild(services.settings, services.clock, command=command)
        made.append(child)
        services.readiness.add("the lab", child.check, dispensable=True)
        route = forwarded(Forwarder(child, services.authenticator), Permission.EXPERIMENTS)
        router = APIRouter(prefix="/api/v1/experiments", route_class=route)

        @router.post("/{path}")
        @router.get("/{path}")
        async def documented(path: str) -> dict[str, str]:
            raise AssertionError("the lab answers this")

        pushes = PushForwarder(child, services.authenticator, (), services.connections)
        return Parts(
            planes=[LabPlane(child, pushes)],
            routers=[router],
            sockets={"/ws/experiments/{path}": pushes},
            larger_bodies={"/api/v1/experiments": 1 << 30},
        )

    async with running_server(settings, assemble=assemble) as server:
        yield server, made[0]


def client_of(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)


async def eventually(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_until, condition, what, PATIENCE_SECONDS)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_request_reaches_the_child_with_who_asks_and_without_their_key(
    tmp_path: Path, notes: Path
) -> None:
    async def scenario() -> None:
        settings = settings_in(tmp_path / ("long" * 40), "keys")
        async with server_with_child(settings) as (server, _), client_of(server) as client:
            services = server.services
            keys = KeyStore(services.store, services.clock, services.randomness.stream("test"))
            _, key = await keys.create(Role.EVALUATOR, "acmé")
            headers = {
                "Authorization": f"Bearer {key.reveal()}",
                "X-Dragoman-Principal": "forged",
                "X-Kept": "yes",
            }
            answer = await client.get(
                "/api/v1/experiments/a%20b?x=1&token=a-secret", headers=headers
            )
            assert answer.status_code == 207
            assert answer.headers["x-from"] == "the lab"
            told = answer.json()
            assert (told["tenant"], told["role"]) == ("acmé", "evaluator")
            assert (told["path"], told["query"]) == ("/api/v1/experiments/a b", "x=1")
            assert told["headers"]["x-kept"] == "yes"
            assert key.reveal() not in answer.text

    asyncio.run(scenario())


def test_no_caller_gets_through_without_a_key_that_may(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        settings = settings_in(tmp_path, "keys")
        async with server_with_child(settings) as (server, _), client_of(server) as client:
            services = server.services
            keys = KeyStore(services.store, services.clock, services.randomness.stream("test"))
            _, key = await keys.create(Role.CLIENT, "acme")
            assert (await client.get("/api/v1/experiments/x")).status_code == 401
            wrong = {"Authorization": f"Bearer {key.reveal()}"}
            assert (await client.get("/api/v1/experiments/x", headers=wrong)).status_code == 403
            for used, code in ((None, 4401), (ApiKey.generate(), 4401), (key, 4403)):
                token = "" if used is None else f"?token={used.reveal()}"
                async with connect(f"{_ws(server)}/ws/experiments/x{token}") as socket:
                    with pytest.raises(ConnectionClosed):
                        await socket.recv()
                    assert socket.close_code == code

    asyncio.run(scenario())


def _ws(server: Server) -> str:
    return server.url.replace("http", "ws", 1)


def test_a_large_body_streams_through(tmp_path: Path, notes: Path) -> None:
    size = 12_000_000  # more than a message on a socket may have

    async def body() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b"x" * 1_000_000

    async def scenario() -> None:
        async with (
            server_with_child(settings_in(tmp_path)) as (server, _),
            client_of(server) as client,
        ):
            announced = await client.post("/api/v1/experiments/x", content=b"x" * size)
            streamed = await client.post("/api/v1/experiments/x", content=body())
            assert [a.json()["body_bytes"] for a in (announced, streamed)] == [size, size]

    asyncio.run(scenario())


def test_a_child_that_dies_is_replaced_and_readiness_shows_it(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        async with (
            server_with_child(settings_in(tmp_path)) as (server, child),
            client_of(server) as client,
        ):
            assert (await client.get("/readyz")).status_code == 200
            first = child.pid
            lost = await client.post("/api/v1/experiments/die")
            assert lost.status_code == 503
            assert lost.json()["error"]["code"] == "SCHEDULER_DEPENDENCY_DOWN"
            seen: set[int] = set()
            while (answer := await client.get("/api/v1/experiments/x")).status_code != 207:
                assert answer.status_code == 503
                seen.add((await client.get("/readyz")).status_code)
            assert answer.json()["pid"] != first
            assert seen <= {200, 503}
            assert (await client.get("/readyz")).status_code == 200

    asyncio.run(scenario())
    assert len(notes.read_text().splitlines()) == 2


def test_a_child_that_never_gets_ready_does_not_keep_the_server_from_starting(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "START_SECONDS", 0.2)

    async def scenario() -> None:
        async with (
            server_with_child(settings_in(tmp_path), "silent") as (server, _),
            client_of(server) as client,
        ):
            ready = await client.get("/readyz")
            # Conversations go on without it: a load balancer must not take them away.
            assert ready.status_code == 200
            assert ready.json()["lacking"] == ["the lab is down"]
            refused = await client.get("/api/v1/experiments/x")
            assert refused.status_code == 503
            assert "try again" in refused.json()["error"]["message"]

    asyncio.run(scenario())


def test_a_child_that_ends_at_once_is_tried_again_and_again_ever_more_slowly(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "START_SECONDS", 0.1)

    async def scenario() -> None:
        async with server_with_child(settings_in(tmp_path), "ends"):
            await eventually(lambda: len(notes.read_text().splitlines()) >= 3, "three children")

    asyncio.run(scenario())


def test_the_child_ends_with_the_server_and_leaves_no_socket(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> int:
        async with server_with_child(settings_in(tmp_path)) as (_, child):
            assert child.pid is not None
            assert (tmp_path / SOCKET_FILE).stat().st_mode & 0o077 == 0
            return child.pid

    assert is_gone(asyncio.run(scenario()))
    assert not (tmp_path / SOCKET_FILE).exists()


def test_a_socket_left_by_a_server_that_was_killed_is_no_obstacle(
    tmp_path: Path, notes: Path
) -> None:
    (tmp_path / SOCKET_FILE).touch()

    async def scenario() -> None:
        async with (
            server_with_child(settings_in(tmp_path)) as (server, _),
            client_of(server) as client,
        ):
            assert (await client.get("/api/v1/experiments/x")).status_code == 207

    asyncio.run(scenario())


def test_a_watcher_hears_the_child_and_how_it_ends(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        async with server_with_child(settings_in(tmp_path)) as (server, child):
            first = child.pid
            for path, code in (("short", 1000), ("die", 1001)):
                async with connect(f"{_ws(server)}/ws/experiments/{path}") as socket:
                    assert "default" in str(await socket.recv())
                    with pytest.raises(ConnectionClosed):
                        await socket.recv()
                    assert socket.close_code == code
            await eventually(lambda: child.pid != first, "another child")
            await _until_answering(child)
            async with connect(f"{_ws(server)}/ws/experiments/long") as socket:
                await socket.recv()

    asyncio.run(scenario())


async def _until_answering(child: LabChild) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await child.check()
            except Exception:
                await asyncio.sleep(0.01)


def test_a_watcher_is_told_when_the_server_stops(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        async with server_with_child(settings_in(tmp_path)) as (server, _):
            socket = await connect(f"{_ws(server)}/ws/experiments/long")
            await socket.recv()
        await socket.wait_closed()
        assert socket.close_code == 1001

    asyncio.run(scenario())


def test_a_watcher_whose_key_is_revoked_is_closed(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        async with server_with_child(settings_in(tmp_path, "keys")) as (server, _):
            services = server.services
            keys = KeyStore(services.store, services.clock, services.randomness.stream("test"))
            record, key = await keys.create(Role.EVALUATOR, "acme")
            url = f"{_ws(server)}/ws/experiments/long?token={key.reveal()}"
            async with connect(url) as socket:
                await socket.recv()
                await keys.revoke(record.key_id)
                await socket.wait_closed()
                assert socket.close_code == 4401

    asyncio.run(scenario())


def test_pages_of_other_origins_may_not_watch(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        async with server_with_child(settings_in(tmp_path)) as (server, _):
            url = f"{_ws(server)}/ws/experiments/long"
            async with connect(url, origin=Origin("http://evil.example")) as socket:
                await socket.wait_closed()
                assert socket.close_code == 4403

    asyncio.run(scenario())
