"""A process that falls silent in the middle of a transaction does not hold up the others."""

from __future__ import annotations

import asyncio
import threading

import pytest
import sqlalchemy as sa
from tests.integration.store.notes import note, notes_store, write_note

from dragoman.errors import StoreError
from dragoman.store import StoreConnection, open_store
from dragoman.store.mysql import server as mysql_server
from dragoman.store.postgres import server as postgres_server


def rename(connection: StoreConnection, name: str) -> None:
    connection.execute(sa.update(note).values(name=name))


@pytest.mark.parametrize("server_url", ["postgres_url", "mariadb_url"])
def test_what_a_paused_process_has_locked_is_free_again(
    server_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url: str = request.getfixturevalue(server_url)
    monkeypatch.setattr(postgres_server, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(mysql_server, "SILENCE_SECONDS", 1)
    locked, resumed = threading.Event(), threading.Event()
    told: list[StoreError] = []

    async def be_paused() -> None:
        def fall_silent(connection: StoreConnection) -> None:
            rename(connection, "paused")
            locked.set()
            resumed.wait(60)

        async with await open_store(url) as store:
            try:
                await store.write(fall_silent)
            except StoreError as error:
                told.append(error)

    async def story() -> None:
        async with notes_store(url) as store:
            await store.write(write_note("first"))
            paused = threading.Thread(target=lambda: asyncio.run(be_paused()))
            paused.start()
            try:
                await asyncio.to_thread(locked.wait, 60)
                async with asyncio.timeout(30):
                    await store.write(lambda c: rename(c, "went on"))
            finally:
                resumed.set()
                await asyncio.to_thread(paused.join)
            names = await store.read(lambda c: set(c.execute(sa.select(note.c.name)).scalars()))
            assert names == {"went on"}

    asyncio.run(story())
    assert [error.code for error in told] == [StoreError.code]
