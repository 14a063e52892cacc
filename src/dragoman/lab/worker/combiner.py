"""Many entries, one transaction: what queues up while a commit runs travels in the next one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.errors import StoreError
from dragoman.lab.repository import JournalEntry, Lease, TryEntry, journaling
from dragoman.lab.worker.taking import NextItems, TakenItem
from dragoman.observability import Metrics
from dragoman.store import Store, StoreConnection

MAX_ENTRIES = 1_000
"""Entries in one transaction, so that a burst does not make the first one wait for the last."""

LINGER_SECONDS = 0.05
"""How long entries that nothing waits for are gathered, so that they are written together."""

_FADING = 0.9
"""How much of a slow write is remembered at the next one."""

WRITE_ATTEMPTS = 5
RETRY_PAUSE_SECONDS = 0.2
"""When the database is away for a moment, writes are tried again: no work is lost."""


Waiting = tuple[JournalEntry, asyncio.Future[bool]]
"""An entry, and the future that tells whether it was written."""


Followers = tuple[list[TakenItem], list[TakenItem]]
"""The items that begin at once, and those that were set aside."""


class Succession(Protocol):
    """Says which items follow those that end, and hears which there were."""

    def follow(self, lease: Lease) -> Lease | None:
        """Begin an item that was set aside since this one's place began to wait for it."""
        ...

    def wanted(self, waiting: Sequence[Lease]) -> Sequence[NextItems]:
        """What to take in the write that ends these items, whose places wait for others."""
        ...

    def took(
        self, waiting: Sequence[Lease], wanted: Sequence[NextItems], taken: Sequence[Followers]
    ) -> None:
        """What was taken; a place that waited and got no item is free."""
        ...


class Unstorable(Exception):
    """Raised when the database refuses an item's value: another try would not help."""

    def __init__(self, refused: JournalEntry, reason: str) -> None:
        super().__init__(reason)
        self.refused = refused
        self.reason = reason


class Combiner:
    """Writes entries of one worker, each under its own lease."""

    def __init__(
        self,
        store: Store,
        owner: str,
        clock: Clock,
        metrics: Metrics,
        succession: Succession | None = None,
        take: Callable[[StoreConnection, NextItems], list[TakenItem]] | None = None,
    ) -> None:
        """`take` takes the items that follow, in the transaction that ends those before them."""
        self._succession = succession
        self._take = take
        self._store = store
        self._owner = owner
        self._clock = clock
        self._metrics = metrics
        self._waiting: list[Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        self.write_seconds = 0.0
        """How long the slowest of the latest writes took."""

    def enter(self, entry: JournalEntry, *, soon: bool = False) -> asyncio.Future[bool]:
        """Have the entry written; the future tells whether its lease still held.

        `soon`: no call waits for it, so it need not be written at once.
        """
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, written))
        if not soon or len(self._waiting) >= MAX_ENTRIES:
            self._now.set()
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return written

    async def close(self) -> None:
        """Wait until everything entered is written or refused."""
        self._now.set()
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting = self._waiting[:MAX_ENTRIES], self._waiting[MAX_ENTRIES:]
                await self._write(batch)
        finally:
            self._writing = None

    async def _gather(self) -> None:
        """Wait for more entries, until one cannot wait."""
        if not self._now.is_set() and len(self._waiting) < MAX_ENTRIES:
            try:
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._now.wait()
            except TimeoutError:
                pass
        self._now.clear()

    async def _write(self, batch: list[Waiting]) -> None:
        batch = [(self._with_successor(entry), written) for entry, written in batch]
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

    def _with_successor(self, entry: JournalEntry) -> JournalEntry:
        """The entry with the item that has taken its place, if there has come to be one.

        Asked for again, the database would give none: those that were set aside are held.
        """
        what = entry.what
        if self._succession is None or not isinstance(what, TryEntry) or not what.keeps_place:
            return entry
        successor = self._succession.follow(entry.lease)
        if successor is None:
            return entry
        what = msgspec.structs.replace(what, successor=successor, keeps_place=False)
        return msgspec.structs.replace(entry, what=what)

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
        # An output and the try that ends with it are refused together: that is one late write.
        refused = {
            entry.lease for (entry, _), is_held in zip(batch, held, strict=True) if not is_held
        }
        self._metrics.lab_fenced_writes.inc(len(refused))
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
        waiting = [entry.lease for entry in entries if _keeps_place(entry)]
        wanted = self._succession.wanted(waiting) if self._succession else ()

        def write(connection: StoreConnection) -> tuple[list[bool], list[Followers]]:
            held = journaling.write_entries(connection, self._owner, entries, at_ms)
            places = Counter(
                entry.lease.run_id
                for entry, is_held in zip(entries, held, strict=True)
                if is_held and _keeps_place(entry)
            )
            return held, [
                self._followers(connection, one, places[one.run.run_id]) for one in wanted
            ]

        asked_at = self._clock.monotonic()
        held, taken = await self._store.write(write)
        took_seconds = self._clock.monotonic() - asked_at
        self.write_seconds = max(took_seconds, self.write_seconds * _FADING)
        if self._succession is not None:
            self._succession.took(waiting, wanted, taken)
        return held

    def _followers(self, connection: StoreConnection, wanted: NextItems, places: int) -> Followers:
        """The next items of a run, for the places of items that this write has ended."""
        if self._take is None or not (places or wanted.ahead):
            return [], []
        taken = self._take(connection, msgspec.structs.replace(wanted, places=places))
        return taken[:places], taken[places:]


def _keeps_place(entry: JournalEntry) -> bool:
    return isinstance(entry.what, TryEntry) and entry.what.keeps_place


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
