"""A PostgreSQL database to set up, look at and open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from dragoman.errors import StoreError
from dragoman.store.interface import Database, Result, ServerFacts, Store
from dragoman.store.postgres.connect import name_of, passing_engine
from dragoman.store.postgres.failures import cannot_connect, cannot_use
from dragoman.store.postgres.store import PostgresStore

ALTERING_LOCK = int.from_bytes(b"dragoman")
"""The advisory lock for altering the schema; PostgreSQL releases it with the transaction."""


class PostgresDatabase(Database):
    """One existing database on a PostgreSQL server."""

    def __init__(self, url: URL) -> None:
        self._url = url

    def __str__(self) -> str:
        return name_of(self._url)

    def inspect(self, look: Callable[[sa.Connection], Result]) -> Result | None:
        return self._run(look)

    def alter(self, change: Callable[[sa.Connection], Result]) -> Result:
        def alone(connection: sa.Connection) -> Result:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ALTERING_LOCK)))
            return change(connection)

        return self._run(alone)

    def copy_to(self, target: Path) -> None:
        raise StoreError(
            f"{self} is a PostgreSQL database, which Dragoman does not copy; back it up with "
            "PostgreSQL's own tool: `pg_dump --format=custom --file=FILE DATABASE`."
        )

    def find_damage(self) -> list[str]:
        # The server looks after its files, and refuses to serve what it finds broken.
        return []

    def ask_server(self) -> ServerFacts | None:
        def ask(connection: sa.Connection) -> ServerFacts:
            now_ms = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * 1000, sa.BigInteger)
            version = sa.func.current_setting("server_version")
            row = connection.execute(sa.select(version, now_ms)).one()
            return ServerFacts(version=row[0], now_ms=row[1])

        return self._run(ask)

    def open(self) -> Store:
        return PostgresStore(self._url)

    def _run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run the function in a transaction, on an event loop of its own.

        The loop has a thread of its own too: the caller may already be inside a loop.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="dragoman-store-schema") as thread:
            return thread.submit(asyncio.run, self._transaction(work)).result()

    async def _transaction(self, work: Callable[[sa.Connection], Result]) -> Result:
        try:
            async with passing_engine(self._url).connect() as connection:
                return await connection.run_sync(self._carry_out, work)
        except (DBAPIError, OSError) as error:
            raise cannot_connect(str(self), error) from error

    def _carry_out(
        self, connection: sa.Connection, work: Callable[[sa.Connection], Result]
    ) -> Result:
        try:
            with connection.begin():
                return work(connection)
        except DBAPIError as error:
            raise cannot_use(str(self), error) from error
