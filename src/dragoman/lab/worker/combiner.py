"""Many entries, one transaction: what queues up while a commit runs travels in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.repository import JournalEntry, Lease, journaling
from dragoman.observability import Metrics
from dragoman.store import Store

MAX_ENTRIES = 1_000
"""Entries in one transaction, so that a burst does not make the first one wait for the last."""

WRITE_ATTEMPTS = 5
RETRY_PAUSE_SECONDS = 0.2
"""When the database is away for a moment, writes are tried again: no work is lost."""


Waiting = tuple[JournalEntry, asyncio.Future[bool]]
"""An entry, and the future that tells whether it was written."""


class Unstorable(Exception):
    """Raised when the database refuses an item's value: another try would not help."""

    def __init__(self, refused: JournalEntry, reason: str) -> None:
        super().__init__(reason)
        self.refused = refused
        self.reason = reason


class Combiner:
    """Writes entries of one worker, each under its own lease."""

    def __init__(self, store: Store, owner: str, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._metrics = metrics
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    def enter(self, entry: JournalEntry) -> asyncio.Future[bool]:
        """Have the entry written; the future tells whether its lease still held."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return written

    async def close(self) -> None:
        """Wait until everything entered is written or refused."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_ENTRIES], self._waiting[MAX_ENTRIES:]
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: list[Waiting]) -> None:
        try:
            held = await self._stored([entry for entry, _ in batch])
        except Exception as error:
            # A database that restarts may be there again before it can be asked.
            was_away = isinstance(error, StoreError) and error.is_passing
            if was_away or not await self._database_is_there():
                self._fail(batch, error)
            elif len(batch) == 1:
                self._fail(batch, Unstorable(batch[0][0], _reason(error)))
            else:
                # One entry cannot be stored; the entries of other items still can.
                for entries in _by_lease(batch):
                    await self._write_one_by_one(entries)
            return
        self._tell(batch, held)

    async def _write_one_by_one(self, entries: list[Waiting]) -> None:
        """Write entries of one item in their order; after one that is refused come no others."""
        for number, one in enumerate(entries):
            await self._write([one])
            if one[1].done() and not one[1].cancelled() and (error := one[1].exception()):
                self._fail(entries[number + 1 :], error)
                return

    async def _database_is_there(self) -> bool:
        try:
            await self._store.read(lambda connection: None)
        except StoreError:
            return False
        return True

    def _fail(self, batch: list[Waiting], error: BaseException) -> None:
        """Give up these entries, and what waits behind them: an item's journal has no gaps."""
        leases = {entry.lease for entry, _ in batch}
        behind = [one for one in self._waiting if one[0].lease in leases]
        self._waiting = [one for one in self._waiting if one[0].lease not in leases]
        for _, written in (*batch, *behind):
            if not written.done():
                written.set_exception(error)
                written.exception()  # retrieved, or asyncio would warn about it

    def _tell(self, batch: list[Waiting], held: Sequence[bool]) -> None:
        if refused := held.count(False):
            self._metrics.lab_fenced_writes.inc(refused)
        for (_, written), is_held in zip(batch, held, strict=True):
            if not written.done():
                written.set_result(is_held)

    async def _stored(self, entries: list[JournalEntry]) -> list[bool]:
        for _ in range(WRITE_ATTEMPTS - 1):
            try:
                return await self._write_once(entries)
            except StoreError:
                await asyncio.sleep(RETRY_PAUSE_SECONDS)
        return await self._write_once(entries)

    async def _write_once(self, entries: list[JournalEntry]) -> list[bool]:
        at_ms = self._clock.now_ms()
        return await self._store.write(
            lambda connection: journaling.write_entries(connection, self._owner, entries, at_ms)
        )


def _reason(error: Exception) -> str:
    """Why the database refuses a write, in one line: the driver's own message, if there is one."""
    told = getattr(error, "orig", None) or error
    return " ".join(str(told).split()) or type(error).__name__


def _by_lease(batch: list[Waiting]) -> list[list[Waiting]]:
    """The entries of each item apart, in their order."""
    groups: dict[Lease, list[Waiting]] = {}
    for one in batch:
        groups.setdefault(one[0].lease, []).append(one)
    return list(groups.values())
