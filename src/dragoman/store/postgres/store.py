"""The store on PostgreSQL: a few connections, one transaction a call, nothing torn."""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from dragoman.errors import StoreError
from dragoman.store.interface import Result, Store, Work
from dragoman.store.postgres.connect import lasting_engine, name_of
from dragoman.store.postgres.failures import (
    TRY_AGAIN,
    cannot_connect,
    connection_lost,
    for_caller,
    may_try_again,
    sqlstate,
)
from dragoman.store.postgres.transaction import Outcome, run_whole
from dragoman.task_set import TaskSet

WRITERS = 8
"""Writes that run at once; further ones wait."""

URGENT_WRITERS = 1
"""Urgent writes that run at once, which need no other connection to become free."""

READERS = 4
"""Reads that run at once, on connections of their own, so that a long one holds up no write."""

ATTEMPTS = 5
"""How often a transaction is run that keeps losing races with others."""

RETRY_PAUSE_SECONDS = 0.01
"""The pause before the second attempt; it doubles with each."""

_log = logging.getLogger(__name__)


class PostgresStore(Store):
    """A PostgreSQL database that this and other processes read and write at the same time."""

    def __init__(self, url: URL) -> None:
        self._name = name_of(url)
        self._engine = lasting_engine(url, WRITERS + URGENT_WRITERS + READERS)
        self._reading_engine = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._writers = asyncio.Semaphore(WRITERS)
        self._urgent_writers = asyncio.Semaphore(URGENT_WRITERS)
        self._readers = asyncio.Semaphore(READERS)
        self._under_way = TaskSet()
        self._closed = False

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._name} is closed; nothing was written.")
        places = self._urgent_writers if urgent else self._writers
        return await self._shielded(work, self._engine, places)

    async def read(self, work: Work[Result]) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._name} is closed; nothing was read.")
        return await self._shielded(work, self._reading_engine, self._readers)

    async def close(self) -> None:
        self._closed = True
        await self._under_way.wait()
        await self._engine.dispose()

    async def _shielded(
        self, work: Work[Result], engine: AsyncEngine, places: asyncio.Semaphore
    ) -> Result:
        """Carry the work out in a task of its own, which a cancelled caller leaves alone."""
        outcome = await asyncio.shield(self._under_way.spawn(self._carry_out(work, engine, places)))
        if outcome.error is None:
            return outcome.value
        if outcome.lost:
            raise connection_lost(self._name, committing=outcome.committing) from outcome.error
        raise for_caller(outcome.error)

    async def _carry_out(
        self, work: Work[Result], engine: AsyncEngine, places: asyncio.Semaphore
    ) -> Outcome[Result]:
        """Run the work once there is room for it, again while it loses races."""
        async with places:
            for attempt in range(1, ATTEMPTS):
                outcome = await self._attempt(work, engine)
                if outcome.error is None or not may_try_again(outcome.error):
                    return outcome
                what = TRY_AGAIN[sqlstate(outcome.error)]
                _log.info("A transaction is run again after a %s (attempt %d)", what, attempt)
                await asyncio.sleep(RETRY_PAUSE_SECONDS * 2 ** (attempt - 1))
            return await self._attempt(work, engine)

    async def _attempt(self, work: Work[Result], engine: AsyncEngine) -> Outcome[Result]:
        try:
            async with engine.connect() as connection:
                return await connection.run_sync(run_whole, work)
        except (DBAPIError, OSError) as error:
            outcome: Outcome[Result] = Outcome()
            outcome.error = cannot_connect(self._name, error)
            outcome.error.__cause__ = error
            return outcome
