"""Which database a URL means, of those that Dragoman can keep its data in."""

from __future__ import annotations

from dragoman.extras import require_extra
from dragoman.store.interface import Database
from dragoman.store.sqlite import SqliteDatabase
from dragoman.store.urls import parse_database_url, sqlite_path


def database_at(database_url: str) -> Database:
    """The database that the URL names; nothing is opened yet."""
    url = parse_database_url(database_url)
    if url.get_backend_name() == "sqlite":
        return SqliteDatabase(sqlite_path(url))
    require_extra("postgres", "A PostgreSQL database (store.database_url)")
    from dragoman.store.postgres import PostgresDatabase  # an extra

    return PostgresDatabase(url)
