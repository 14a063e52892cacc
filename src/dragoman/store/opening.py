"""From a database URL to an open store, a backup or a verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.store.interface import Store
from dragoman.store.sqlite import SqliteStore, copy_database, integrity_problems
from dragoman.store.upgrades import require_up_to_date
from dragoman.store.urls import parse_database_url, sqlite_path


async def open_store(database_url: str) -> Store:
    """Open the database for work; one with an empty, older or newer schema is refused.

    Close it with ``await store.close()``, or use it as ``async with await open_store(url)``.
    """
    url = parse_database_url(database_url)
    await asyncio.to_thread(require_up_to_date, database_url)
    return SqliteStore(sqlite_path(url))


def backup(database_url: str, to: Path) -> None:
    """Copy the database, consistent even while a server writes to it; never over another file."""
    copy_database(sqlite_path(parse_database_url(database_url)), to)


def find_damage(database_url: str) -> list[str]:
    """What the database finds wrong with its own files; nothing, when they are sound."""
    return integrity_problems(sqlite_path(parse_database_url(database_url)))
