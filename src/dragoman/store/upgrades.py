"""The schema of a database: which one it has, and how to upgrade it.

Alembic is imported only to upgrade: it takes longer to import than the rest of a small command
takes, and every command that opens the database looks at its schema.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from dragoman.errors import SchemaTooNew, StoreError
from dragoman.store.databases import database_at
from dragoman.store.interface import Database

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE = "alembic_version"
_FIRST_TABLES = ("api_key",)
"""What the first migration makes: with the second, the database has a version."""

# Each upgrade would write lines about Alembic's inner state, of no use to an operator.
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
    return found or SchemaState(None, _revisions()[-1], SchemaStatus.EMPTY)


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
            from alembic import command

            config = alembic_config()
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
    known = _revisions()
    head = known[-1]
    tables = sa.inspect(connection).get_table_names()
    current: str | None = None
    begun = _VERSION_TABLE in tables
    if begun:
        current = connection.execute(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()
        tables.remove(_VERSION_TABLE)
    if current is None:
        # Where every step is stored by itself, a set-up that broke off leaves the first ones.
        foreign = [table for table in tables if not begun or table not in _FIRST_TABLES]
        if foreign:
            raise StoreError(
                f"The database {database} belongs to another program (it has a table "
                f"{foreign[0]!r} and no Dragoman schema); name another one."
            )
        return SchemaState(None, head, SchemaStatus.EMPTY)
    if current == head:
        return SchemaState(current, head, SchemaStatus.UP_TO_DATE)
    return SchemaState(
        current, head, SchemaStatus.OUTDATED if current in known else SchemaStatus.NEWER
    )


def _too_new(found: SchemaState, database: Database) -> SchemaTooNew:
    return SchemaTooNew(
        f"The database {database} has schema {found.current}, written by a newer Dragoman than "
        f"this one (which knows {found.head}); install the newer version, or restore a backup."
    )


def _revisions() -> list[str]:
    """The revisions that this program knows, oldest first: each file is named for its own."""
    files = (MIGRATIONS / "versions").glob("*.py")
    return sorted(file.stem.partition("_")[0] for file in files)


def alembic_config() -> Config:
    """What Alembic needs to know to run the migrations of this program."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
