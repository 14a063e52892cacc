"""The schema of a database: which one it has, and how to upgrade it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from dragoman.errors import SchemaTooNew, StoreError
from dragoman.store.databases import database_at
from dragoman.store.interface import Database

# Each look at a schema would write two lines about Alembic's inner state, of no use to an operator.
logging.getLogger("alembic").setLevel(logging.WARNING)


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
    """Find the schema of the database; changes and creates nothing."""
    database = database_at(database_url)
    found = database.inspect(lambda connection: _state(connection, database))
    return found or SchemaState(None, _head(), SchemaStatus.EMPTY)


def upgrade(database_url: str) -> SchemaState:
    """Upgrade an empty or older database to this program's schema; returns what it was before.

    Several processes may do this at once: one migrates, the others wait and find it done.
    """
    database = database_at(database_url)

    def migrate(connection: sa.Connection) -> SchemaState:
        before = _state(connection, database)
        if before.state is SchemaStatus.NEWER:
            raise _too_new(before, database)
        if before.state is not SchemaStatus.UP_TO_DATE:
            config = _alembic()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        return before

    return database.alter(migrate)


def require_up_to_date(database_url: str) -> None:
    """Refuse a database that this program cannot work on, and say what to do."""
    found = check(database_url)
    if found.state is SchemaStatus.UP_TO_DATE:
        return
    database = database_at(database_url)
    if found.state is SchemaStatus.NEWER:
        raise _too_new(found, database)
    condition = "is empty" if found.state is SchemaStatus.EMPTY else "has an older schema"
    raise StoreError(f"The database {database} {condition}; run `dragoman db upgrade` first.")


def _state(connection: sa.Connection, database: Database) -> SchemaState:
    head = _head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        if tables := sa.inspect(connection).get_table_names():
            raise StoreError(
                f"The database {database} belongs to another program (it has a table "
                f"{tables[0]!r} and no Dragoman schema); name another one."
            )
        return SchemaState(None, head, SchemaStatus.EMPTY)
    if current == head:
        return SchemaState(current, head, SchemaStatus.UP_TO_DATE)
    known = {script.revision for script in _scripts().walk_revisions()}
    return SchemaState(
        current, head, SchemaStatus.OUTDATED if current in known else SchemaStatus.NEWER
    )


def _too_new(found: SchemaState, database: Database) -> SchemaTooNew:
    return SchemaTooNew(
        f"The database {database} has schema {found.current}, written by a newer Dragoman than "
        f"this one (which knows {found.head}); install the newer version, or restore a backup."
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
