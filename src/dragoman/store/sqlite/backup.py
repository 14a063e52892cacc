"""Copies and checks of a SQLite file, both while a server works on it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from dragoman.errors import StoreError
from dragoman.store.sqlite.connect import cannot_use, connect, primary_code


def copy_database(source: Path, target: Path) -> None:
    """Write the database as it is at one moment to a new file, whole or not at all."""
    _refuse_to_overwrite(target)
    if not source.exists():
        raise StoreError(f"There is no database at {source} to copy.")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
    except OSError as error:
        raise _cannot_write(target, error) from error
    partial = Path(name)
    try:
        _copy(source, partial)
        _sync(partial)
        _refuse_to_overwrite(target)
        partial.rename(target)
        _sync(target.parent)
    except (sqlite3.Error, OSError) as error:
        raise _cannot_write(target, error) from error
    finally:
        partial.unlink(missing_ok=True)


def integrity_problems(path: Path) -> list[str]:
    """What SQLite's quick check finds wrong with the file; nothing, when it is sound."""
    with closing(connect(path)) as connection:
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
        except sqlite3.DatabaseError as error:
            # A file can be too damaged even to be checked.
            if primary_code(error) == sqlite3.SQLITE_CORRUPT:
                return [str(error)]
            raise cannot_use(path, error) from error
    return [] if found == ["ok"] else found


def _copy(source: Path, partial: Path) -> None:
    with closing(connect(source)) as origin, closing(sqlite3.connect(partial)) as copy:
        # All pages in one step: one moment of the source; in WAL mode no writer waits for it.
        origin.backup(copy)
        # The copy is one file by itself, without a log beside it.
        copy.execute("PRAGMA journal_mode = DELETE")


def _refuse_to_overwrite(target: Path) -> None:
    if target.exists():
        raise StoreError(f"{target} exists already; name another file for the backup.")


def _cannot_write(target: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The backup {target} could not be written ({error}); check that its directory exists "
        "and that the disk is not full."
    )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
