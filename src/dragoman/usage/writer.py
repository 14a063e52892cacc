"""Brings what was counted to the database, beside the work and not in its way."""

from __future__ import annotations

import asyncio

from dragoman.errors import DragomanError
from dragoman.observability import get_logger
from dragoman.usage.store import UsageStore
from dragoman.usage.tally import Row, UsageTally

log = get_logger("dragoman.usage")

WRITE_SECONDS = 5.0
"""How late the database may be. So much of the count is lost when a process is killed."""


class UsageWriter:
    """A plane of the server: it writes now and then, and once more at the end."""

    def __init__(self, tally: UsageTally, store: UsageStore) -> None:
        self._tally = tally
        self._store = store
        self._written: dict[Row, tuple[int, int, int, int, int]] = {}
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="usage")

    async def drain(self) -> None:
        """Jobs in hand are still counted."""

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._write_or_warn()

    async def write(self) -> None:
        """Write what changed since the last time."""
        async with self._writing:
            totals = self._tally.totals()
            changed = {
                row: values for row, values in totals.items() if self._written.get(row) != values
            }
            await self._store.write(changed)
            self._tally.wrote(totals)
            self._written = totals

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self._write_or_warn()

    async def _write_or_warn(self) -> None:
        try:
            await self.write()
        except DragomanError as error:
            # The totals stay in memory, and are written when the database is back.
            log.warning_limited(
                "usage_not_written", key="write", every_seconds=60, error=error.message
            )
