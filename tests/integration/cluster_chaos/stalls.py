"""Noticing that a process stood still, so that its lateness is not taken for a fault.

Time limits of seconds mean nothing to a process that stands still for seconds. Each process of
nodes and speakers, and the run itself, watches its own loop; instances and Redis are asked from
outside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import httpx
from tests.integration.cluster_chaos.faults import CABLES, REDIS
from tests.integration.cluster_chaos.instances import Servers
from tests.integration.cluster_chaos.records import Diary, Stalled

_EVERY_SECONDS = 0.1
LATE_SECONDS = 0.1
"""Less is not written down."""
_ANSWER_SECONDS = 60.0


async def watch_own_loop(whom: str, diary: Diary) -> None:
    """Write down whenever this process's loop wakes late; until cancelled."""
    while True:
        in_time_at = time.monotonic()
        await asyncio.sleep(_EVERY_SECONDS)
        _write_if_late(diary, whom, in_time_at)


async def watch_servers(servers: Servers, diary: Diary) -> None:
    """Write down whenever an instance, Redis or this process is late; until cancelled."""
    async with (
        httpx.AsyncClient(timeout=_ANSWER_SECONDS, trust_env=False) as http,
        asyncio.TaskGroup() as group,
    ):
        for name in servers.instances:
            group.create_task(_watch(name, partial(_ask, servers, name, http), diary))
        group.create_task(watch_own_loop(CABLES, diary))
        group.create_task(_watch(REDIS, partial(_ping_all, servers), diary))


async def _watch(whom: str, ask: Callable[[], Awaitable[None]], diary: Diary) -> None:
    while True:
        in_time_at = time.monotonic()
        await asyncio.sleep(_EVERY_SECONDS)
        # What does not answer at all is broken on purpose, and that is written down elsewhere.
        with suppress(httpx.HTTPError, OSError, EOFError, TimeoutError):
            await ask()
            _write_if_late(diary, whom, in_time_at)


def _write_if_late(diary: Diary, whom: str, in_time_at: float) -> None:
    now = time.monotonic()
    if now - in_time_at > _EVERY_SECONDS + LATE_SECONDS:
        diary.write(Stalled(at=in_time_at, whom=whom, until=now))


async def _ask(servers: Servers, name: str, http: httpx.AsyncClient) -> None:
    url = servers.instances[name].url_inside
    if url is not None:
        await http.get(f"{url}/healthz")


async def _ping_all(servers: Servers) -> None:
    for member in servers.redis.members:
        await _ping(member.port)


async def _ping(port: int) -> None:
    async with asyncio.timeout(_ANSWER_SECONDS):
        answers, asks = await asyncio.open_connection("127.0.0.1", port)
        try:
            asks.write(b"PING\r\n")
            await answers.readline()
        finally:
            asks.close()
