"""The one thread that writes to SQLite: many submitters, one transaction, one outcome each.

What is submitted while a commit runs travels together in the next transaction, so the cost of a
commit is shared. Each submission has a savepoint of its own: one that fails is undone alone.
No submitter hears of success before COMMIT has returned.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from dragoman.errors import StoreError
from dragoman.observability import get_logger
from dragoman.store.interface import Result, StoreConnection, Work
from dragoman.store.sqlite.connect import when_free, writer_engine

MAX_PENDING = 4096
"""Submissions accepted and not yet settled; further submitters wait."""

MAX_GROUP = 256
"""Submissions in one transaction, so that a burst does not make the first one wait for the last."""

_WARN_EVERY_SECONDS = 10.0
"""A full disk refuses every write, and each submitter hears of its own."""

_log = get_logger(__name__)


class Submission:
    """One function on its way through a transaction, and what became of it."""

    __slots__ = ("error", "settled", "value", "work")

    def __init__(self, work: Work[Any], settled: asyncio.Future[None]) -> None:
        self.work = work
        self.settled = settled
        self.value: Any = None
        self.error: BaseException | None = None


class Writer:
    """Runs submitted functions on a thread of its own, in groups."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._queue: SimpleQueue[Submission | None] = SimpleQueue()
        self._room = asyncio.Semaphore(MAX_PENDING)
        self._closed = False
        self._finished = loop.create_future()
        self._thread = Thread(target=self._run, name="dragoman-store-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: Work[Result]) -> Result:
        """Have the function run in a transaction, and return its result once that is committed."""
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise StoreError(f"The database {self._path} is closed; nothing was written.")
        submission = Submission(work, self._loop.create_future())
        self._queue.put(submission)
        await submission.settled
        if submission.error is not None:
            raise submission.error
        return cast(Result, submission.value)

    async def close(self) -> None:
        """Carry out what is queued, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.shield(self._finished)
        self._thread.join()

    # --- below here: the writer thread ------------------------------------------------------------

    def _run(self) -> None:
        transactions = _Transactions(self._path)
        try:
            while group := self._next_group():
                transactions.carry_out(group)
                self._loop.call_soon_threadsafe(self._settle, group)
        finally:
            transactions.close()
            self._loop.call_soon_threadsafe(self._finished.set_result, None)

    def _next_group(self) -> list[Submission]:
        """Wait for a submission, take those that queued up behind it; empty means: stop."""
        first = self._queue.get()
        if first is None:
            return []
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                submission = self._queue.get_nowait()
            except Empty:
                break
            if submission is None:
                self._queue.put(None)
                break
            group.append(submission)
        return group

    # --- back on the event loop -------------------------------------------------------------------

    def _settle(self, group: Sequence[Submission]) -> None:
        for submission in group:
            self._room.release()
            if not submission.settled.done():
                submission.settled.set_result(None)


class _Transactions:
    """The writer's connection, and how a group goes through it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = writer_engine(path)
        self._connection: sa.Connection | None = None

    def carry_out(self, group: Sequence[Submission]) -> None:
        """Give every submission its value or its error; return when the group is settled."""
        try:
            self._commit(group)
        except Exception as error:
            self.close()
            _log.warning_limited(
                "database_write_lost",
                key=str(self._path),
                every_seconds=_WARN_EVERY_SECONDS,
                path=str(self._path),
                writes=len(group),
                reason=str(error),
            )
            for submission in group:
                submission.error = submission.error or _group_lost(self._path, error)

    def close(self) -> None:
        """Let go of the connection; whatever it had not committed is gone."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _commit(self, group: Sequence[Submission]) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        connection = StoreConnection(self._connection)
        with self._connection.begin():
            when_free(lambda: driver.execute("BEGIN IMMEDIATE"), self._path)
            for submission in group:
                _run_alone(submission, connection, driver)
            when_free(lambda: driver.execute("COMMIT"), self._path)


def _run_alone(
    submission: Submission, connection: StoreConnection, driver: sqlite3.Connection
) -> None:
    driver.execute("SAVEPOINT submission")
    try:
        submission.value = submission.work(connection)
    except BaseException as error:
        # Whatever it is belongs to the submitter: it must not end the thread of all the others.
        submission.error = _for_submitter(error)
        if not driver.in_transaction:
            raise StoreError(
                "SQLite gave up a transaction, as it does on I/O errors; nothing of this write "
                "was stored. Check the disk, then try again."
            ) from error
        driver.execute("ROLLBACK TO submission")
    driver.execute("RELEASE submission")


def _for_submitter(error: BaseException) -> BaseException:
    """A broken constraint is the submitter's to understand; other database errors are ours."""
    if isinstance(error, DBAPIError) and not isinstance(error, IntegrityError):
        failure = StoreError(f"The database refused a statement ({error.orig}).")
        failure.__cause__ = error
        return failure
    return error


def _group_lost(path: Path, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        failure = StoreError(error.message)
    else:
        failure = StoreError(
            f"The database {path} could not commit ({error}); nothing of this write was stored. "
            "Check the disk, then try again."
        )
    failure.__cause__ = error
    return failure
