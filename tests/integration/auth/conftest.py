"""A database of each kind with room for keys, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.servers import DATABASES, fresh_database

from dragoman.auth import KeyStore
from dragoman.clock import ManualClock
from dragoman.randomness import Randomness
from dragoman.store import open_store

OpenKeys = Callable[[], AbstractAsyncContextManager[KeyStore]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_database(request.param, request, tmp_path)


@pytest.fixture
def settings_file(database_url: str, tmp_path: Path) -> Path:
    """Settings that name the database, for commands."""
    file = tmp_path / "dragoman.toml"
    file.write_text(f'[store]\ndatabase_url = "{database_url}"\n')
    return file


@pytest.fixture
def open_keys(database_url: str, clock: ManualClock) -> OpenKeys:
    """Opens the keys of a fresh database."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[KeyStore]:
        async with await open_store(database_url) as store:
            yield KeyStore(store, clock, Randomness().stream("keys"))

    return opened
