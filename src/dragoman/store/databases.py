"""Which database a URL means, of those that Dragoman can keep its data in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.extras import require_extra
from dragoman.store.interface import Database
from dragoman.store.sqlite import SqliteDatabase
from dragoman.store.urls import parse_database_url, sqlite_path

if TYPE_CHECKING:
    from dragoman.store.server import ServerKind


def database_at(database_url: str) -> Database:
    """The database that the URL names; nothing is opened yet."""
    url = parse_database_url(database_url)
    if url.get_backend_name() == "sqlite":
        return SqliteDatabase(sqlite_path(url))
    if url.get_backend_name() == "postgresql":
        require_extra("postgres", "A PostgreSQL database (store.database_url)")
        from dragoman.store.postgres import PostgresServer  # an extra

        return _on_server(PostgresServer(url))
    require_extra("mysql", "A MariaDB or MySQL database (store.database_url)")
    from dragoman.store.mysql import MysqlServer  # an extra

    return _on_server(MysqlServer(url))


def _on_server(server: ServerKind) -> Database:
    from dragoman.store.server import ServerDatabase  # needs what the extras bring

    return ServerDatabase(server)
