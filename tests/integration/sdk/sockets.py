"""The fake scheduler behind a real socket, and nodes as processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from tests.unit.sdk.scheduler import LIMITS, FakeScheduler

from dragoman.clock import SystemClock
from dragoman.live.budget import ByteBudget
from dragoman.live.gateway import TransportLimits, WebSocketApp, uvicorn_options
from dragoman.sdk.transport import NODE_DOOR

PATIENCE_SECONDS = 60.0
"""A test that waits longer than this has failed; on a busy machine a process starts slowly."""


@asynccontextmanager
async def scheduling(
    *, keys_required: bool = False, port: int = 0
) -> AsyncIterator[tuple[FakeScheduler, str]]:
    """A scheduler and its URL, without a path; the test may take PATIENCE_SECONDS with it."""
    scheduler = FakeScheduler(SystemClock(), keys_required=keys_required)
    app = FastAPI()
    app.router.routes.append(WebSocketRoute(NODE_DOOR.path, WebSocketApp(scheduler.endpoint)))
    listening = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        lifespan="off",
        **uvicorn_options(
            TransportLimits(max_frame_bytes=LIMITS.max_frame_bytes, budget=ByteBudget(1 << 30))
        ),
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield scheduler, f"ws://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


def free_port() -> int:
    """A port without a listener just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def program(*arguments: str | Path, **environment: str) -> AsyncIterator[Process]:
    """A Python process with these arguments; killed if the test does not end it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *map(str, arguments), stdout=PIPE, stderr=PIPE, env=kept | environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.communicate()


def node_command(*arguments: str) -> tuple[str, ...]:
    """The arguments that make Python run ``dragoman node``."""
    return ("-c", "import typer; from dragoman.cli.node import node; typer.run(node)", *arguments)
