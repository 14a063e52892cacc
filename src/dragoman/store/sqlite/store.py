"""The store on a SQLite file: one writer thread, a few readers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from dragoman.errors import StoreError
from dragoman.store.interface import Result, Store, StoreConnection, Work
from dragoman.store.sqlite.connect import reader_engine
from dragoman.store.sqlite.writer import Writer

READERS = 4
"""Reads that run at once; WAL lets them run beside the writer."""


class SqliteStore(Store):
    """A SQLite file that this and other processes read and write at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = Writer(path, asyncio.get_running_loop())
        self._urgent_writer: Writer | None = None
        self._engine = reader_engine(path, READERS)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="dragoman-store-reader")
        self._closed = False

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        if not urgent:
            return await self._writer.submit(work)
        if self._urgent_writer is None and not self._closed:
            self._urgent_writer = Writer(self._path, asyncio.get_running_loop())
        return await (self._urgent_writer or self._writer).submit(work)

    async def read(self, work: Work[Result]) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._path} is closed; nothing was read.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _read, self._engine, work)

    async def close(self) -> None:
        self._closed = True
        await self._writer.close()
        if self._urgent_writer is not None:
            await self._urgent_writer.close()
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()


def _read(engine: sa.Engine, work: Work[Result]) -> Result:
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(StoreConnection(connection))
    except DBAPIError as error:
        raise StoreError(f"The database refused a read ({error.orig}).") from error
