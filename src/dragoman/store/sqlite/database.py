"""A SQLite file as a database to set up, look at and open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from dragoman.store.interface import Database, Result, Store, StoreServerFacts
from dragoman.store.sqlite.backup import copy_database, integrity_problems
from dragoman.store.sqlite.connect import cannot_use, when_free, writer_engine
from dragoman.store.sqlite.store import SqliteStore


class SqliteDatabase(Database):
    """One file, made when it is first altered."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def inspect(self, look: Callable[[sa.Connection], Result]) -> Result | None:
        if not self._path.exists():
            return None
        with self._connected() as connection:
            return look(connection)

    def alter(self, change: Callable[[sa.Connection], Result]) -> Result:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise cannot_use(self._path, error) from error
        with self._connected() as connection, connection.begin():
            # SQLite's write lock is the exclusive lock: all is read and changed under it.
            when_free(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"), self._path)
            return change(connection)

    def copy_to(self, target: Path) -> None:
        copy_database(self._path, target)

    def find_damage(self) -> list[str]:
        return integrity_problems(self._path)

    def ask_server(self) -> StoreServerFacts | None:
        return None

    def open(self, silence_seconds: float | None = None) -> Store:
        return SqliteStore(self._path)

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        try:
            with writer_engine(self._path).connect() as connection:
                yield connection
        except DBAPIError as error:
            raise cannot_use(self._path, error.orig or error) from error
