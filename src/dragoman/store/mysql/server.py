"""A MariaDB or MySQL server: its connections, its locks and its errors."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import sqlalchemy as sa
from asyncmy.constants import FIELD_TYPE
from asyncmy.converters import conversions
from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from dragoman.store.interface import StoreServerFacts
from dragoman.store.schema import MARIADB_COLLATION, MYSQL_COLLATION
from dragoman.store.server import ServerKind

CONNECT_SECONDS = 10
"""How long a server may take to accept a connection."""

SILENCE_SECONDS = 30.0
"""How long a process may fall silent within a transaction, unless the caller wants it shorter.

MariaDB ends such a connection. MySQL has no such limit.
"""

LOCK_WAIT_SECONDS = 60
"""How long a statement waits for a row that another transaction holds; longer than that silence."""

RECYCLE_SECONDS = 3600
"""The age at which a connection is replaced: a server ends one that was idle for eight hours."""

_ALTERING_SECONDS = 24 * 3600

_MODE = "STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""A value that does not fit is refused, never cut off."""

# A comment that begins with /*M! is a command to MariaDB, one with /*!80017 to MySQL alone.
_SESSION = (
    f"SET NAMES utf8mb4 COLLATE /*M! {MARIADB_COLLATION} */ /*!80017 {MYSQL_COLLATION} */",
    # Warnings quote values, and the driver would ask for them and log them.
    f"SET SESSION sql_mode = '{_MODE}', max_error_count = 0, "
    "innodb_lock_wait_timeout = {lock_wait} /*M! , idle_transaction_timeout = {idle} */",
)
_WRITING = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"
_READING = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_DUPLICATE = re.compile(r"entry '.*' for key", re.DOTALL)

_TELLING = frozenset(
    (
        *(1020, 1040, 1044, 1045, 1048, 1049, 1054, 1062, 1114, 1142, 1143, 1146, 1153, 1203),
        *(1205, 1213, 1227, 1264, 1290, 1406, 1419, 1452, 1644, 1792, 1927, 2003, 2006, 2013),
    )
)
"""Errors whose messages quote no value, once a duplicate key is left out of them."""


class MysqlServer(ServerKind):
    """One existing database on a MariaDB or MySQL server."""

    product = "MariaDB"
    backup_command = "mariadb-dump --single-transaction --triggers DATABASE > FILE"
    away: ClassVar = ("1040", "1053", "1203", "1927", "2003", "2006", "2013", "2055", "4031")
    races: ClassVar = {
        "1213": "deadlock",
        "1205": "wait for a lock",
        "1020": "change of a row that was read",
    }
    remedies: ClassVar = {
        "1045": "check the user and the password in store.database_url",
        "1044": "grant its user all privileges on the database",
        "1049": "create the database (`CREATE DATABASE`), or correct its name in "
        "store.database_url",
        "1040": "raise max_connections on the server, or stop what uses its connections",
    }

    def __init__(self, url: URL) -> None:
        self._url = url
        self.silence_seconds = SILENCE_SECONDS
        named = url.set(query={}, drivername=url.get_backend_name())
        self.name = named.render_as_string(hide_password=True)

    # --- connections ------------------------------------------------------------------------------

    def passing_engine(self) -> AsyncEngine:
        return self._engine(_WRITING, poolclass=NullPool)

    def writing_engine(self, connections: int) -> AsyncEngine:
        return self._pooled(_WRITING, connections)

    def reading_engine(self, connections: int) -> AsyncEngine:
        return self._pooled(_READING, connections)

    def wait_to_alter(self, connection: sa.Connection) -> None:
        # Not a lock of the transaction, which every statement that alters a table would end. The
        # server releases it with the connection.
        name = sa.func.concat("dragoman/", sa.func.sha1(sa.func.database()))
        connection.execute(sa.select(sa.func.get_lock(name, _ALTERING_SECONDS)))

    def facts(self, connection: sa.Connection) -> StoreServerFacts:
        now = sa.text("SELECT VERSION(), CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)")
        version, now_ms = connection.execute(now).one()
        product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
        return StoreServerFacts(product=product, version=version.partition("-")[0], now_ms=now_ms)

    def _pooled(self, mode: str, connections: int) -> AsyncEngine:
        # Every transaction is ended where it is begun: the pool need not send another ROLLBACK.
        return self._engine(
            mode,
            poolclass=AsyncAdaptedQueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_recycle=RECYCLE_SECONDS,
            pool_reset_on_return=None,
        )

    def _engine(self, mode: str, **pool: Any) -> AsyncEngine:
        # Parameters are kept out of error messages and logs: they may be what users said.
        engine = create_async_engine(
            self._url.set(query={}, drivername="mysql+asyncmy"),
            hide_parameters=True,
            connect_args={
                "connect_timeout": CONNECT_SECONDS,
                "charset": "utf8mb4",
                "conv": {**conversions, FIELD_TYPE.NEWDECIMAL: _number},
            },
            **pool,
        )
        numbers = {"lock_wait": LOCK_WAIT_SECONDS, "idle": math.ceil(self.silence_seconds)}
        session = [statement.format(**numbers) for statement in (*_SESSION, mode)]

        @event.listens_for(engine.sync_engine, "connect")
        def prepare(connection: Any, record: Any) -> None:
            cursor = connection.cursor()
            for statement in session:
                cursor.execute(statement)
            cursor.close()

        @event.listens_for(engine.sync_engine, "checkout")
        def look(connection: Any, record: Any, proxy: Any) -> None:
            # The driver would say so only after the first statement had failed.
            transport = getattr(connection.driver_connection, "_transport", None)
            if transport is not None and transport.is_closing():
                raise InvalidatePoolError("The server has closed the connection.")

        return engine

    # --- errors -----------------------------------------------------------------------------------

    def code_of(self, error: BaseException) -> str:
        number = _number_of(error)
        return "" if number is None else str(number)

    def reason(self, error: BaseException) -> str:
        cause = (error.orig or error) if isinstance(error, DBAPIError) else error
        number = _number_of(error)
        if number is None:
            told = "" if isinstance(error, DBAPIError) else str(cause)
            return told or type(cause).__name__
        if number in _TELLING:
            return _without_values(str(cause.args[-1]))
        return f"{type(cause).__name__} {number}"

    def forget_values(self, error: DBAPIError) -> None:
        # The key of a row that is there already is quoted.
        if error.orig is not None and _number_of(error) is not None:
            error.orig.args = (error.orig.args[0], self.reason(error))
            error.args = (str(error.orig), *error.args[1:])


def _number(text: str) -> int | float:
    """A number that the server computed: it adds whole numbers up as DECIMAL."""
    return float(text) if "." in text else int(text)


def _number_of(error: BaseException) -> int | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    first = cause.args[0] if cause is not None and cause.args else None
    return first if isinstance(first, int) and not isinstance(cause, OSError) else None


def _without_values(message: str) -> str:
    return _DUPLICATE.sub("entry for key", message)
