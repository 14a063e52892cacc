"""Which schema a database has, and how it gets the one that this program needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from dragoman.errors import SchemaTooNew, StoreError
from dragoman.store.sqlite import cannot_use, when_free, writer_engine
from dragoman.store.urls import parse_database_url, sqlite_path


class SchemaStatus(StrEnum):
    """How a database's schema stands to the one that this program needs."""

    UP_TO_DATE = "up_to_date"
    OUTDATED = "outdated"
    NEWER = "newer"
    EMPTY = "empty"


@dataclass(frozen=True)
class SchemaState:
    """The schema revision of a database, and the one that this program needs."""

    current: str | None
    head: str
    state: SchemaStatus


def check(database_url: str) -> SchemaState:
    """Tell which schema the database has; changes nothing, creates nothing."""
    path = _path(database_url)
    if not path.exists():
        return SchemaState(None, _head(), SchemaStatus.EMPTY)
    with _connected(path) as connection:
        return _state(connection, path)


def upgrade(database_url: str) -> SchemaState:
    """Bring an empty or older database to the schema of this program, and tell what it was before.

    Several processes may do this at once: one migrates, the others wait and find it done.
    """
    path = _path(database_url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise cannot_use(path, error) from error
    with _connected(path) as connection, connection.begin():
        # SQLite's write lock is the exclusive lock: the revision is read and raised under it.
        when_free(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"), path)
        before = _state(connection, path)
        if before.state is SchemaStatus.NEWER:
            raise _too_new(before, path)
        if before.state is not SchemaStatus.UP_TO_DATE:
            config = _alembic()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    return before


def require_up_to_date(database_url: str) -> None:
    """Refuse a database that this program cannot work on, and say what to do."""
    found = check(database_url)
    if found.state is SchemaStatus.UP_TO_DATE:
        return
    path = _path(database_url)
    if found.state is SchemaStatus.NEWER:
        raise _too_new(found, path)
    condition = "is empty" if found.state is SchemaStatus.EMPTY else "has an older schema"
    raise StoreError(f"The database {path} {condition}; run `dragoman db upgrade` first.")


def _state(connection: sa.Connection, path: Path) -> SchemaState:
    head = _head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        if tables := sa.inspect(connection).get_table_names():
            raise StoreError(
                f"The database {path} belongs to another program (it has a table "
                f"{tables[0]!r} and no Dragoman schema); name another file."
            )
        return SchemaState(None, head, SchemaStatus.EMPTY)
    if current == head:
        return SchemaState(current, head, SchemaStatus.UP_TO_DATE)
    known = {script.revision for script in _scripts().walk_revisions()}
    return SchemaState(
        current, head, SchemaStatus.OUTDATED if current in known else SchemaStatus.NEWER
    )


def _too_new(found: SchemaState, path: Path) -> SchemaTooNew:
    return SchemaTooNew(
        f"The database {path} has schema {found.current}, written by a newer Dragoman than this "
        f"one (which knows {found.head}); install the newer version, or restore a backup."
    )


def _head() -> str:
    head = _scripts().get_current_head()
    assert head is not None, "the package ships at least one migration"
    return head


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_alembic())


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", "dragoman.store:migrations")
    return config


def _path(database_url: str) -> Path:
    return sqlite_path(parse_database_url(database_url))


@contextmanager
def _connected(path: Path) -> Iterator[sa.Connection]:
    try:
        with writer_engine(path).connect() as connection:
            yield connection
    except DBAPIError as error:
        raise cannot_use(path, error.orig or error) from error
