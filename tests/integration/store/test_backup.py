"""Backups of SQLite files: one moment of a database that is being written, in one new file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.store.notes import make_table, whole_notes, write_note
from tests.servers.postgres import PASSWORD

from dragoman.errors import StoreError
from dragoman.store import backup, find_damage, open_store


def test_a_backup_taken_while_writing_is_whole_and_holds_what_was_acknowledged(
    sqlite_url: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"

    async def scenario() -> None:
        acknowledged: set[str] = set()
        enough, stop = asyncio.Event(), asyncio.Event()
        async with await open_store(sqlite_url) as store:
            await make_table(store)

            async def keep_writing(submitter: int) -> None:
                number = 0
                while not stop.is_set():
                    acknowledged.add(await store.write(write_note(f"{submitter}-{number}")))
                    number += 1
                    if len(acknowledged) > 100:
                        enough.set()

            writing = [asyncio.create_task(keep_writing(submitter)) for submitter in range(10)]
            await enough.wait()
            before = set(acknowledged)
            await asyncio.to_thread(backup, sqlite_url, copy)
            stop.set()
            await asyncio.gather(*writing)
        async with await open_store(f"sqlite:///{copy}") as restored:
            copied = await whole_notes(restored)
        assert before <= copied <= acknowledged

    asyncio.run(scenario())
    assert find_damage(f"sqlite:///{copy}") == []


def test_a_backup_is_one_file_and_leaves_nothing_beside_it(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    backup(sqlite_url, folder / "copy.db")
    assert [path.name for path in folder.iterdir()] == ["copy.db"]


def test_a_backup_never_overwrites(sqlite_url: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious.db"
    precious.write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        backup(sqlite_url, precious)
    assert precious.read_text() == "mine"


def test_a_backup_that_cannot_be_written_says_so(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory exists"):
        backup(sqlite_url, tmp_path / "nowhere" / "copy.db")
    with pytest.raises(StoreError, match="no database at"):
        backup(f"sqlite:///{tmp_path}/nothing.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_mariadb_is_backed_up_with_its_own_tool(mariadb_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="mariadb-dump") as refused:
        backup(mariadb_url, tmp_path / "copy.sql")
    assert PASSWORD not in refused.value.message
    assert find_damage(mariadb_url) == []


def test_postgresql_is_backed_up_with_its_own_tool(postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="pg_dump") as refused:
        backup(postgres_url, tmp_path / "copy.dump")
    assert PASSWORD not in refused.value.message
    assert list(tmp_path.iterdir()) == []
    assert find_damage(postgres_url) == []


def test_damage_is_found(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)
    assert find_damage(sqlite_url) != []
