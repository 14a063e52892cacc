"""A fresh database for each test of the store, on each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import (
    DATABASES,
    MariadbProcess,
    PostgresProcess,
    empty_database,
    fresh_database,
    fresh_sqlite,
)


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind with nothing in it; the file of a SQLite one is not there yet."""
    return empty_database(request.param, request, tmp_path)


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind that has Dragoman's schema and nothing in it."""
    return fresh_database(request.param, request, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that has Dragoman's schema and nothing in it."""
    return fresh_sqlite(tmp_path)


@pytest.fixture
def postgres_url(postgres_server: PostgresProcess) -> str:
    """A PostgreSQL database that has Dragoman's schema and nothing in it."""
    return postgres_server.fresh_database()


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresProcess) -> str:
    """A PostgreSQL database with nothing in it."""
    return postgres_server.empty_database()


@pytest.fixture
def mariadb_url(mariadb_server: MariadbProcess) -> str:
    """A MariaDB database that has Dragoman's schema and nothing in it."""
    return mariadb_server.fresh_database()
