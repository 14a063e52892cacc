"""The store on a server: a few connections, one transaction a call, nothing torn."""

from __future__ import annotations

import asyncio

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from dragoman.errors import StoreError
from dragoman.observability import get_logger
from dragoman.store.interface import Result, Store, Work
from dragoman.store.server.kind import ServerKind
from dragoman.store.server.transaction import TransactionOutcome, run_whole
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

_log = get_logger(__name__)


class ServerStore(Store):
    """A database on a server that this and other processes read and write at the same time."""

    def __init__(self, server: ServerKind) -> None:
        self._server = server
        self._writing_engine = server.writing_engine(WRITERS + URGENT_WRITERS)
        self._reading_engine = server.reading_engine(READERS)
        self._writers = asyncio.Semaphore(WRITERS)
        self._urgent_writers = asyncio.Semaphore(URGENT_WRITERS)
        self._readers = asyncio.Semaphore(READERS)
        self._under_way = TaskSet()
        self._closed = False

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._server.name} is closed; nothing was written.")
        places = self._urgent_writers if urgent else self._writers
        return await self._shielded(work, self._writing_engine, places)

    async def read(self, work: Work[Result]) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._server.name} is closed; nothing was read.")
        return await self._shielded(work, self._reading_engine, self._readers)

    async def close(self) -> None:
        self._closed = True
        await self._under_way.wait()
        await self._writing_engine.dispose()
        await self._reading_engine.dispose()

    async def _shielded(
        self, work: Work[Result], engine: AsyncEngine, places: asyncio.Semaphore
    ) -> Result:
        """Carry the work out in a task of its own, which a cancelled caller leaves alone."""
        outcome = await asyncio.shield(self._under_way.spawn(self._carry_out(work, engine, places)))
        if outcome.error is None:
            return outcome.value
        if outcome.lost:
            raise self._server.connection_lost(committing=outcome.committing) from outcome.error
        raise self._server.for_caller(outcome.error)

    async def _carry_out(
        self, work: Work[Result], engine: AsyncEngine, places: asyncio.Semaphore
    ) -> TransactionOutcome[Result]:
        """Run the work once there is room for it, again while it loses races."""
        async with places:
            for attempt in range(1, ATTEMPTS):
                outcome = await self._attempt(work, engine)
                if outcome.error is None:
                    return outcome
                race = self._server.lost_race(outcome.error)
                if race is None:
                    return outcome
                _log.info("transaction_run_again", after=str(race), attempt=attempt)
                await asyncio.sleep(RETRY_PAUSE_SECONDS * 2 ** (attempt - 1))
            return await self._attempt(work, engine)

    async def _attempt(self, work: Work[Result], engine: AsyncEngine) -> TransactionOutcome[Result]:
        try:
            async with engine.connect() as connection:
                return await connection.run_sync(run_whole, work)
        except (DBAPIError, OSError) as error:
            outcome: TransactionOutcome[Result] = TransactionOutcome()
            outcome.error = self._server.cannot_connect(error)
            outcome.error.__cause__ = error
            return outcome
