"""A database on a server, to set up, look at and open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from dragoman.errors import StoreError
from dragoman.store.interface import Database, Notifications, Result, Store, StoreServerFacts
from dragoman.store.server.kind import ServerKind
from dragoman.store.server.store import ServerStore


class ServerDatabase(Database):
    """One existing database on a server."""

    def __init__(self, server: ServerKind) -> None:
        self._server = server

    def __str__(self) -> str:
        return self._server.name

    def inspect(self, look: Callable[[sa.Connection], Result]) -> Result | None:
        return self._run(look)

    def alter(self, change: Callable[[sa.Connection], Result]) -> Result:
        def alone(connection: sa.Connection) -> Result:
            self._server.wait_to_alter(connection)
            return change(connection)

        return self._run(alone)

    def copy_to(self, target: Path) -> None:
        product = self._server.product
        raise StoreError(
            f"{self} is a {product} database, which Dragoman does not copy; back it up with "
            f"{product}'s own tool: `{self._server.backup_command}`."
        )

    def find_damage(self) -> list[str]:
        # The server looks after its files, and refuses to serve what it finds broken.
        return []

    def ask_server(self) -> StoreServerFacts | None:
        return self._run(self._server.facts)

    def open(self, silence_seconds: float | None = None) -> Store:
        if silence_seconds is not None:
            self._server.silence_seconds = min(self._server.silence_seconds, silence_seconds)
        return ServerStore(self._server)

    def notifications(self) -> Notifications | None:
        return self._server.notifications()

    def _run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run the function in a transaction, on an event loop of its own.

        The loop has a thread of its own too: the caller may already be inside a loop.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="dragoman-store-schema") as thread:
            return thread.submit(asyncio.run, self._transaction(work)).result()

    async def _transaction(self, work: Callable[[sa.Connection], Result]) -> Result:
        try:
            async with self._server.passing_engine().connect() as connection:
                return await connection.run_sync(self._carry_out, work)
        except (DBAPIError, OSError) as error:
            raise self._server.cannot_connect(error) from error

    def _carry_out(
        self, connection: sa.Connection, work: Callable[[sa.Connection], Result]
    ) -> Result:
        try:
            with connection.begin():
                return work(connection)
        except DBAPIError as error:
            raise self._server.cannot_use(error) from error
