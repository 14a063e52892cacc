"""A PostgreSQL server: its connections, its locks and its errors."""

from __future__ import annotations

from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from dragoman.errors import InvalidMessage
from dragoman.store.interface import StoreServerFacts
from dragoman.store.postgres.notifications import PostgresNotifications
from dragoman.store.server import ServerKind

CONNECT_SECONDS = 10.0
"""How long a server may take to accept a connection."""

SILENCE_SECONDS = 30.0
"""How long a process may fall silent within a transaction, unless the caller wants it shorter."""

ALTERING_LOCK = int.from_bytes(b"dragoman")
"""The advisory lock for altering the schema; PostgreSQL releases it with the transaction."""

APPLICATION = "dragoman"

_DATA_EXCEPTIONS = "22"
"""The class of errors about values, whose messages quote them."""

_NO_TEXT = ("22021", "22P05")
"""Text that PostgreSQL cannot take, in a value or in JSON: a zero character, or half of one."""


class PostgresServer(ServerKind):
    """One existing database on a PostgreSQL server."""

    product = "PostgreSQL"
    backup_command = "pg_dump --format=custom --file=FILE DATABASE"
    away: ClassVar = ("08", "25P03", "53", "57", "58")
    races: ClassVar = {"40001": "serialization failure", "40P01": "deadlock"}
    remedies: ClassVar = {
        "28P01": "check the user and the password in store.database_url",
        "28000": "check the user in store.database_url, and pg_hba.conf on the server",
        "3D000": "create the database (`createdb`), or correct its name in store.database_url",
        "53300": "raise max_connections on the server, or stop what uses its connections",
        "57P03": "wait until the server has started, then try again",
    }

    def __init__(self, url: URL) -> None:
        self._url = url
        self.silence_seconds = SILENCE_SECONDS
        named = url.set(query={}, drivername="postgresql")
        self.name = named.render_as_string(hide_password=True)

    # --- connections ------------------------------------------------------------------------------

    def passing_engine(self) -> AsyncEngine:
        return self._engine(poolclass=NullPool)

    def writing_engine(self, connections: int) -> AsyncEngine:
        return self._pooled(connections)

    def reading_engine(self, connections: int) -> AsyncEngine:
        return self._pooled(connections).execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    def wait_to_alter(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ALTERING_LOCK)))

    def facts(self, connection: sa.Connection) -> StoreServerFacts:
        now_ms = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger)
        version = sa.func.current_setting("server_version")
        row = connection.execute(sa.select(version, now_ms)).one()
        return StoreServerFacts(product=self.product, version=row[0], now_ms=row[1])

    def notifications(self) -> PostgresNotifications:
        return PostgresNotifications(self._url, APPLICATION)

    def _pooled(self, connections: int) -> AsyncEngine:
        return self._engine(poolclass=AsyncAdaptedQueuePool, pool_size=connections, max_overflow=0)

    def _engine(self, **pool: Any) -> AsyncEngine:
        query = self._url.query
        ssl = {"ssl": query["sslmode"]} if "sslmode" in query else {}
        # Parameters are kept out of error messages and logs: they may be what users said.
        return create_async_engine(
            self._url.set(query={}, drivername="postgresql+asyncpg"),
            isolation_level="READ COMMITTED",
            hide_parameters=True,
            connect_args={
                "timeout": CONNECT_SECONDS,
                "server_settings": {
                    "application_name": APPLICATION,
                    "idle_in_transaction_session_timeout": str(round(self.silence_seconds * 1000)),
                },
                **ssl,
            },
            **pool,
        )

    # --- errors -----------------------------------------------------------------------------------

    def code_of(self, error: BaseException) -> str:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return getattr(cause, "sqlstate", None) or ""

    def reason(self, error: BaseException) -> str:
        cause = (error.orig or error) if isinstance(error, DBAPIError) else error
        driver = cause.__cause__ or cause
        code = self.code_of(error)
        if code.startswith(_DATA_EXCEPTIONS) or (isinstance(error, DBAPIError) and not code):
            return f"{type(driver).__name__} {code}".strip()
        return str(driver) or type(driver).__name__

    def refusal_of_value(self, error: DBAPIError) -> Exception | None:
        if self.code_of(error) not in _NO_TEXT:
            return None
        return InvalidMessage(
            "A text holds a NUL character (U+0000), which the database cannot store; remove it."
        )

    def forget_values(self, error: DBAPIError) -> None:
        # PostgreSQL's details quote the row.
        driver = error.orig.__cause__ if error.orig is not None else None
        for part in ("detail", "hint", "where"):
            for holder in (error.orig, driver):
                if hasattr(holder, part):
                    setattr(holder, part, None)
