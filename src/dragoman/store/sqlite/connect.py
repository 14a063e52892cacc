"""SQLite connections: the settings they all share, and patience with other processes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool, QueuePool

from dragoman.errors import StoreError

BUSY_TIMEOUT_SECONDS = 5.0
"""How long SQLite itself waits for another process before it answers BUSY."""

BUSY_ATTEMPTS = 6
"""How often an operation that answered BUSY is tried before it fails."""

BUSY_PAUSE_SECONDS = 0.02
"""Some BUSY answers come at once, without SQLite's own wait (recovery, the switch to WAL)."""

CHECKPOINT_PAGES = 8000
"""How long the log grows before it is moved into the file: 32 MB, which a busy writer fills in
seconds. Moving it at SQLite's own 4 MB takes a fifth of the writer's time."""

_PRIMARY_CODE = 0xFF

Result = TypeVar("Result")


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit, so that BEGIN and COMMIT are written where they happen."""
    _make_private(path)
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise cannot_use(path, error) from error
    try:
        when_free(lambda: connection.execute("PRAGMA journal_mode = WAL"), path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        connection.close()
        raise cannot_use(path, error) from error
    except StoreError:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Make a file that only its owner can read, unless it is there; SQLite would ask the umask.

    Its log, which SQLite makes beside it, can be read by the same.
    """
    # A file that is there is left alone: to close it here would end SQLite's locks on it.
    with suppress(OSError):  # SQLite says it better
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def writer_engine(path: Path) -> sa.Engine:
    """An engine that opens a connection each time and never keeps one."""
    return _engine(lambda: connect(path), NullPool)


def reader_engine(path: Path, connections: int) -> sa.Engine:
    """An engine over a few connections that cannot write."""

    def connect_reader() -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA query_only = ON")
        return connection

    # The last one used is used again: each keeps statements and pages of its own, and a quiet
    # process would otherwise fill all of these caches, a little more every hour.
    return _engine(
        connect_reader, QueuePool, pool_size=connections, max_overflow=0, pool_use_lifo=True
    )


def when_free(operation: Callable[[], Result], path: Path) -> Result:
    """Run the operation, again for a while when another process is in the way."""
    for _ in range(BUSY_ATTEMPTS - 1):
        try:
            return operation()
        except (sqlite3.OperationalError, OperationalError) as error:
            if not is_busy(error):
                raise
            time.sleep(BUSY_PAUSE_SECONDS)
    try:
        return operation()
    except (sqlite3.OperationalError, OperationalError) as error:
        if not is_busy(error):
            raise
        raise StoreError(
            f"The database {path} is held by another process; stop whatever keeps a "
            "transaction open on it, then try again."
        ) from error


def is_busy(error: BaseException) -> bool:
    """Whether SQLite asks to try again later, in any of the ways it says so."""
    cause = error.orig if isinstance(error, OperationalError) else error
    return isinstance(cause, sqlite3.Error) and primary_code(cause) == sqlite3.SQLITE_BUSY


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's result code without its refinements; None when the error is not from SQLite."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE


def cannot_use(path: Path, error: BaseException) -> StoreError:
    """The sentence for a file that SQLite cannot open or read."""
    return StoreError(
        f"The database {path} cannot be used ({error}); check that it is a SQLite database, that "
        "its directory exists and can be written, and that the disk is not full; restore a backup "
        "of a damaged one."
    )


def _engine(
    creator: Callable[[], sqlite3.Connection], poolclass: type[sa.Pool], **pool: int
) -> sa.Engine:
    # Parameters are kept out of error messages and logs: they may be what users said.
    engine = sa.create_engine(
        "sqlite+pysqlite://", creator=creator, poolclass=poolclass, hide_parameters=True, **pool
    )
    engine.dialect.statement_compiler = _HintingCompiler
    return engine


class _HintingCompiler(SQLiteCompiler):
    """Writes the hints of statements, such as INDEXED BY; SQLAlchemy leaves them out for SQLite."""

    def get_from_hint_text(self, table: Any, text: str | None) -> str | None:
        return text
