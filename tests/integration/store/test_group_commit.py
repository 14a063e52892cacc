"""Writes that travel together on SQLite: an outcome for each submitter, told after COMMIT."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError
from tests.integration.store.notes import (
    note,
    notes_store,
    parts_by_name,
    until_queued,
    whole_notes,
    write_note,
    write_note_and_fail,
    write_note_twice,
)

from dragoman.errors import StoreError
from dragoman.store import Store, StoreConnection, Work, open_store, upgrade
from dragoman.store.sqlite import connect, writer


@asynccontextmanager
async def held_writer(store: Store) -> AsyncIterator[Callable[[], None]]:
    """Keep the writer inside a transaction, so that what is submitted meanwhile forms a group."""
    loop = asyncio.get_running_loop()
    entered, release = asyncio.Event(), threading.Event()

    def hold(connection: StoreConnection) -> None:
        loop.call_soon_threadsafe(entered.set)
        release.wait()

    holding = asyncio.create_task(store.write(hold))
    await entered.wait()
    try:
        yield release.set
    finally:
        release.set()
        await holding


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["good", "fails", "breaks a constraint"]), max_size=40))
def test_exactly_the_submissions_that_succeeded_are_stored(fates: list[str]) -> None:
    works: dict[str, Callable[[str], Work[str]]] = {
        "good": write_note,
        "fails": write_note_and_fail,
        "breaks a constraint": write_note_twice,
    }

    async def scenario(directory: str) -> None:
        url = f"sqlite:///{directory}/dragoman.db"
        upgrade(url)
        async with notes_store(url) as store:
            async with held_writer(store):
                tasks = [
                    asyncio.create_task(store.write(works[fate](str(number))))
                    for number, fate in enumerate(fates)
                ]
                await until_queued()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            expected = {"good": str, "fails": ValueError, "breaks a constraint": IntegrityError}
            for fate, outcome in zip(fates, outcomes, strict=True):
                assert isinstance(outcome, expected[fate])
            good = {str(number) for number, fate in enumerate(fates) if fate == "good"}
            assert await whole_notes(store) == good

    with TemporaryDirectory() as directory:
        asyncio.run(scenario(directory))


def test_one_failing_submitter_does_not_touch_the_others_of_its_group(sqlite_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            async with held_writer(store):
                before = asyncio.create_task(store.write(write_note("before")))
                failing = asyncio.create_task(store.write(write_note_and_fail("failing")))
                after = asyncio.create_task(store.write(write_note("after")))
                await until_queued()
            assert await before == "before"
            assert await after == "after"
            with pytest.raises(ValueError, match="failing"):
                await failing
            assert await whole_notes(store) == {"before", "after"}

    asyncio.run(scenario())


def test_no_writer_hears_of_success_before_the_whole_group_is_committed(sqlite_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            loop = asyncio.get_running_loop()
            reached, release = asyncio.Event(), threading.Event()

            def slow(connection: StoreConnection) -> None:
                loop.call_soon_threadsafe(reached.set)
                release.wait()

            async with held_writer(store):
                quick = asyncio.create_task(store.write(write_note("quick")))
                last = asyncio.create_task(store.write(slow))
                await until_queued()
            await reached.wait()
            assert not quick.done()
            assert await whole_notes(store) == set()
            release.set()
            await asyncio.gather(quick, last)
            assert await whole_notes(store) == {"quick"}

    asyncio.run(scenario())


def make_child(connection: StoreConnection) -> None:
    connection.execute(sa.text("CREATE TABLE parent (name TEXT PRIMARY KEY)"))
    connection.execute(sa.text("CREATE TABLE child (name TEXT REFERENCES parent(name))"))


def break_at_commit(connection: StoreConnection) -> None:
    """A foreign key that is checked only at COMMIT makes a real one fail."""
    connection.execute(sa.text("PRAGMA defer_foreign_keys = ON"))
    connection.execute(sa.text("INSERT INTO child VALUES ('nobody')"))


def test_a_commit_that_fails_fails_everyone_in_it_and_the_store_goes_on(sqlite_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            await store.write(make_child)
            async with held_writer(store):
                innocent = asyncio.create_task(store.write(write_note("innocent")))
                culprit = asyncio.create_task(store.write(break_at_commit))
                failing = asyncio.create_task(store.write(write_note_and_fail("failing")))
                await until_queued()
            for task in (innocent, culprit):
                with pytest.raises(StoreError, match="could not commit"):
                    await task
            with pytest.raises(ValueError, match="failing"):
                await failing
            await store.write(write_note("later"))
            assert await whole_notes(store) == {"later"}

    asyncio.run(scenario())


def test_commits_that_fail_are_told_to_each_submitter_and_now_and_then_to_the_log(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk every one fails, several times a second."""

    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            await store.write(make_child)
            for _ in range(5):
                with pytest.raises(StoreError, match="could not commit"):
                    await store.write(break_at_commit)

    asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["database_write_lost"]


def test_a_full_disk_is_told_to_the_submitter_and_leaves_nothing_half(sqlite_url: str) -> None:
    def fill(connection: StoreConnection) -> None:
        pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
        connection.execute(sa.text(f"PRAGMA max_page_count = {pages + 2}"))
        write_note("big")(connection)
        connection.execute(sa.text("CREATE TABLE big AS SELECT randomblob(1000000) AS content"))

    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            with pytest.raises(StoreError, match="full"):
                await store.write(fill)
            await store.write(lambda c: c.execute(sa.text("PRAGMA max_page_count = 1000000")).all())
            await store.write(write_note("small"))
            assert await whole_notes(store) == {"small"}

    asyncio.run(scenario())


def test_a_process_that_never_lets_go_is_named_and_the_store_recovers(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(connect, "BUSY_ATTEMPTS", 2)
    path = sqlite_url.removeprefix("sqlite:///")

    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            with closing(sqlite3.connect(path, isolation_level=None)) as stubborn:
                stubborn.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreError, match="held by another process"):
                    await store.write(write_note("refused"))
                assert await whole_notes(store) == set()
            await store.write(write_note("later"))
            assert await whole_notes(store) == {"later"}

    asyncio.run(scenario())


def test_a_cancelled_submitter_tears_nothing(sqlite_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            async with held_writer(store):
                cancelled = asyncio.create_task(store.write(write_note("cancelled")))
                neighbour = asyncio.create_task(store.write(write_note("neighbour")))
                await until_queued()
                cancelled.cancel()
                await until_queued()
                assert cancelled.cancelled()
            assert await neighbour == "neighbour"
            assert await whole_notes(store) == {"cancelled", "neighbour"}

    asyncio.run(scenario())


def test_submitters_beyond_the_bound_wait_and_are_served(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_PENDING", 3)
    monkeypatch.setattr(writer, "MAX_GROUP", 2)

    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            async with held_writer(store):
                tasks = [asyncio.create_task(store.write(write_note(str(n)))) for n in range(20)]
                await until_queued()
                # Given up before there was room for it: it was never submitted.
                tasks[-1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await whole_notes(store) == {str(n) for n in range(19)}

    asyncio.run(scenario())


def test_closing_carries_out_what_was_submitted_and_refuses_what_comes_later(
    sqlite_url: str,
) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            async with held_writer(store):
                queued = asyncio.create_task(store.write(write_note("queued")))
                await until_queued()
                closing = asyncio.create_task(store.close())
                await until_queued()
                with pytest.raises(StoreError, match="closed"):
                    await store.write(write_note("late"))
            await closing
            assert await queued == "queued"
            with pytest.raises(StoreError, match="closed"):
                await parts_by_name(store)
            await store.close()
        async with await open_store(sqlite_url) as store:
            assert await whole_notes(store) == {"queued"}

    asyncio.run(scenario())


def test_a_read_sees_one_moment(sqlite_url: str) -> None:
    async def scenario() -> None:
        async with notes_store(sqlite_url) as store:
            loop = asyncio.get_running_loop()
            looked, look_again = asyncio.Event(), threading.Event()

            def look_twice(connection: StoreConnection) -> tuple[int, int]:
                count = sa.select(sa.func.count()).select_from(note)
                first = connection.execute(count).scalar_one()
                loop.call_soon_threadsafe(looked.set)
                look_again.wait()
                return first, connection.execute(count).scalar_one()

            reading = asyncio.create_task(store.read(look_twice))
            await looked.wait()
            await store.write(write_note("meanwhile"))
            look_again.set()
            assert await reading == (0, 0)
            assert await whole_notes(store) == {"meanwhile"}

    asyncio.run(scenario())


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be used"):
        upgrade(f"sqlite:///{tmp_path}/file/dragoman.db")
