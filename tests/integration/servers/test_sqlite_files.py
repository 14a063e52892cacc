"""The SQLite files that other tests start from are what migrations make, and each is its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.servers import fresh_sqlite

from dragoman.store import SchemaStatus, check, upgrade


def schema_of(file: Path) -> list[tuple[str, ...]]:
    with sqlite3.connect(file) as connection:
        found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    connection.close()
    return sorted(found, key=str)


def test_a_copy_has_the_schema_that_an_upgrade_makes(tmp_path: Path) -> None:
    url = fresh_sqlite(tmp_path)
    upgrade(f"sqlite:///{tmp_path}/upgraded.db")
    assert check(url).state is SchemaStatus.UP_TO_DATE
    assert schema_of(tmp_path / "dragoman.db") == schema_of(tmp_path / "upgraded.db")


def test_what_is_written_to_one_copy_is_not_in_the_next(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    fresh_sqlite(first)
    with sqlite3.connect(first / "dragoman.db") as connection:
        connection.execute("CREATE TABLE mine (n INTEGER)")
    connection.close()
    fresh_sqlite(second)
    assert "mine" in {name for _, name, *_ in schema_of(first / "dragoman.db")}
    assert "mine" not in {name for _, name, *_ in schema_of(second / "dragoman.db")}
