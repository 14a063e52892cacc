"""Real servers with nodes of the SDK, as the lab's fleet target finds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.api import Server, all_parts, live_parts, running_server
from dragoman.live.protocol import NodeHealth, ResourceUsage
from dragoman.sdk import Node, WorkFunction
from dragoman.settings import Settings, load_settings

PATIENCE_SECONDS = 60.0
IDLE = ResourceUsage(cpu_percent=1.0, mem_percent=1.0)


def settings_in(folder: Path, **sections: dict[str, Any]) -> Settings:
    server = {"data_dir": folder, "port": 0, "drain_seconds": 1, **sections.pop("server", {})}
    return load_settings(None, {"server": server, **sections}).settings


@asynccontextmanager
async def serving(
    folder: Path, *, lab: bool = False, **sections: dict[str, Any]
) -> AsyncIterator[Server]:
    """A server on a folder of its own, with or without its lab."""
    settings = settings_in(folder, **sections)
    async with (
        asyncio.timeout(3 * PATIENCE_SECONDS),
        running_server(settings, assemble=all_parts if lab else live_parts) as server,
    ):
        yield server


@asynccontextmanager
async def node_of(server: Server, work: WorkFunction, **options: Any) -> AsyncIterator[Node]:
    """A node that is ready, and that leaves with the block."""
    usual = {"nmt": ["en", "es"], "slots": 4, "usage": lambda: IDLE, "threads": False}
    given: dict[str, Any] = {**usual, **options}
    node = Node(server.url, work=work, drain_seconds=0.2, **given)
    task = asyncio.create_task(node.serve())
    try:
        await until(lambda: node.status is NodeHealth.READY or task.done())
        if task.done():
            await task
        yield node
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - a condition on many things has no event
            await asyncio.sleep(0.01)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path
