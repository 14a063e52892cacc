"""A database of each kind that Dragoman can keep its data in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers.mariadb import MariadbProcess
from tests.servers.postgres import PostgresProcess
from tests.servers.sqlite import fresh_sqlite

DATABASES = ("sqlite", "postgresql", "mariadb")

TWO_DATABASES = ("sqlite", "postgresql")
"""For what is above the database: what the repository promises is tested on all of them."""
"""Every kind, by which tests are parametrized."""


def fresh_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a new database that has Dragoman's schema and nothing in it."""
    if kind == "sqlite":
        return fresh_sqlite(folder)
    return _server(kind, request).fresh_database()


def empty_database(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a database with nothing in it; the file of a SQLite one is not there yet."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/data/dragoman.db"
    return _server(kind, request).empty_database()


def _server(kind: str, request: pytest.FixtureRequest) -> PostgresProcess | MariadbProcess:
    """The server of the whole run, started with the first test that needs it."""
    name = "postgres_server" if kind == "postgresql" else "mariadb_server"
    server: PostgresProcess | MariadbProcess = request.getfixturevalue(name)
    return server
