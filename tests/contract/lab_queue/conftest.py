"""Queues of every kind, and the databases that go with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers import RedisProcess, fresh_database

from dragoman.clock import SystemClock
from dragoman.lab.queue import InProcessQueue, Queue, open_queue

KINDS = {
    "in-process": ("", "sqlite"),
    "redis": ("redis", "mariadb"),
    "database": ("database", "postgresql"),
}
"""The queue and the database of each kind."""


@dataclass(frozen=True)
class Place:
    """Where the queues of a test meet."""

    queue_url: str
    database_url: str

    @property
    def is_shared(self) -> bool:
        """Whether several processes can meet there."""
        return bool(self.queue_url)

    @asynccontextmanager
    async def queues(self, *origins: str) -> AsyncIterator[list[Queue]]:
        """The ends of several processes; those that share no server are one and the same."""
        if not self.is_shared:
            yield [InProcessQueue()] * len(origins)
            return
        opened = [
            open_queue(self.queue_url, self.database_url, origin, SystemClock())
            for origin in origins
        ]
        try:
            yield opened
        finally:
            for one in opened:
                await one.close()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    queue_url, database = KINDS[request.param]
    if queue_url == "redis":
        server: RedisProcess = request.getfixturevalue("redis_server")
        server.flush()
        queue_url = server.url
    return Place(queue_url, fresh_database(database, request, tmp_path))
