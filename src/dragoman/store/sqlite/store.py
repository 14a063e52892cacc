"""The store on a SQLite file: one writer thread, a few readers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from dragoman.errors import StoreError
from dragoman.store.interface import Connection, Result, Store, Work
from dragoman.store.sqlite.connect import reader_engine
from dragoman.store.sqlite.writer import Writer

READERS = 4
"""Reads that run at once; WAL lets them run beside the writer."""


class SqliteStore(Store):
    """A SQLite file that this and other processes read and write at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = Writer(path, asyncio.get_running_loop())
        self._engine = reader_engine(path, READERS)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="dragoman-store-reader")
        self._closed = False

    async def write(self, work: Work[Result]) -> Result:
        return await self._writer.submit(work)

    async def read(self, work: Work[Result]) -> Result:
        if self._closed:
            raise StoreError(f"The database {self._path} is closed; nothing was read.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _read, self._engine, work)

    async def close(self) -> None:
        self._closed = True
        await self._writer.close()
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()


def _read(engine: sa.Engine, work: Work[Result]) -> Result:
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(Connection(connection))
    except DBAPIError as error:
        raise StoreError(f"The database refused a read ({error.orig}).") from error
