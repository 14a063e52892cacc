"""A small table for the tests: a submission writes several rows, so that half of one shows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa

from dragoman.store import Store, StoreConnection, Work, open_store

PARTS = 3
"""Rows that one submission writes."""

note = sa.Table(
    "note",
    sa.MetaData(),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
)


async def make_table(store: Store) -> None:
    def create(connection: StoreConnection) -> None:
        if connection.dialect == "postgresql":
            # IF NOT EXISTS does not keep two that create it at the same moment apart.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(1)))
        connection.execute(sa.schema.CreateTable(note, if_not_exists=True))

    await store.write(create)


def write_note(name: str) -> Work[str]:
    """A function that writes all parts of a note, one statement each."""

    def work(connection: StoreConnection) -> str:
        for part in range(PARTS):
            connection.execute(sa.insert(note), {"name": name, "part": part})
        return name

    return work


def write_note_and_fail(name: str) -> Work[str]:
    def work(connection: StoreConnection) -> str:
        write_note(name)(connection)
        raise ValueError(name)

    return work


def write_note_twice(name: str) -> Work[str]:
    """A function that breaks the table's key."""

    def work(connection: StoreConnection) -> str:
        write_note(name)(connection)
        return write_note(name)(connection)

    return work


def forget_notes(connection: StoreConnection) -> None:
    connection.execute(sa.delete(note))


@asynccontextmanager
async def notes_store(database_url: str) -> AsyncIterator[Store]:
    """The database opened, with a table for notes."""
    async with await open_store(database_url) as store:
        await make_table(store)
        yield store


async def until_queued() -> None:
    """Let tasks that were just created reach their submission."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def _count(connection: StoreConnection) -> Counter[str]:
    return Counter(connection.execute(sa.select(note.c.name)).scalars().all())


async def parts_by_name(store: Store) -> Counter[str]:
    """How many parts of each note are stored."""
    return await store.read(_count)


async def whole_notes(store: Store) -> set[str]:
    """The names stored, after making sure that none is half."""
    parts = await parts_by_name(store)
    assert set(parts.values()) <= {PARTS}, f"half-written: {parts}"
    return set(parts)
