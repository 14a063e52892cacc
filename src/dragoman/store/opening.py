"""From a database URL to an open store, a backup or a verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.store.databases import database_at
from dragoman.store.interface import Notifications, Store, StoreServerFacts
from dragoman.store.upgrades import require_up_to_date


async def open_store(database_url: str, *, silence_seconds: float | None = None) -> Store:
    """Open the database for work; one with an empty, older or newer schema is refused.

    Close it with ``await store.close()``, or use it as ``async with await open_store(url)``.
    `silence_seconds`: how long this process may fall silent within a transaction before a server
    undoes it, if that is to be less than usual.
    """
    database = database_at(database_url)
    await asyncio.to_thread(require_up_to_date, database_url)
    return database.open(silence_seconds)


def open_notifications(database_url: str) -> Notifications | None:
    """Messages between the processes that use the database; None where it carries none.

    Nothing is connected yet. Close them with ``await notifications.close()``.
    """
    return database_at(database_url).notifications()


def backup(database_url: str, to: Path) -> None:
    """Copy the database, consistent even while a server writes to it; never over another file."""
    database_at(database_url).copy_to(to)


def find_damage(database_url: str) -> list[str]:
    """What the database finds wrong with its own files; nothing, when they are sound."""
    return database_at(database_url).find_damage()


def ask_server(database_url: str) -> StoreServerFacts | None:
    """What the database's server says of itself; None, when there is no server but a file."""
    return database_at(database_url).ask_server()
