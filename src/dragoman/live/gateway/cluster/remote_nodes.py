"""Reading the cells of the fleet, so that nodes of other instances are known here too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.fleet import Registry
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.ledger import CellRecord, Seats
from dragoman.live.shared import records as r
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

_AT_A_TIME = 100
"""Cells that are asked for at once."""

_PAUSE_SECONDS = 0.02
"""Between two looks: news that come together are looked into together."""


class SharedSeats(Seats, Protocol):
    """Seats of cells that other instances change, too."""

    async def read_changes(self, cell: int, since: int) -> r.CellChanges | None:
        """The seats that changed since a version; None for a cold cell."""
        ...


class RemoteCells:
    """Fetches the cells whose version moved, now and then, and those that news came of at once."""

    def __init__(
        self,
        ledger: SharedSeats,
        registry: Registry,
        outbox: Outbox,
        *,
        every_seconds: float,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._outbox = outbox
        self._every_seconds = every_seconds
        self._clock = clock
        self._versions: dict[int, int] = {}
        self._seen: dict[int, CellRecord] = {}
        """Cells as they were read last; how many slots are held in them is older than that."""
        self._cold_since: dict[int, float] = {}
        self._wanted: set[int] = set()
        self._news = asyncio.Event()
        self._next_whole = 0.0

    def look_at(self, cell: int) -> None:
        """Something is new in the cell."""
        self._wanted.add(cell)
        self._news.set()

    def look_at_all(self) -> None:
        """Something may be new anywhere."""
        self._next_whole = 0.0
        self._news.set()

    def read_anew(self) -> None:
        """What was made of the cells is no longer so, though they did not change."""
        self._versions.update(dict.fromkeys(self._versions, -1))
        self.look_at_all()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self._look()
            except DependencyDown as error:
                log.warning_limited(
                    "cells_not_read", key="cells", every_seconds=10, error=error.message
                )
            await self._rest()

    async def look_once(self) -> None:
        """Look at every cell whose version moved."""
        in_use = await self._ledger.cells()
        cells = sorted({*in_use, *self._versions, *self._cold_since})
        for start in range(0, len(cells), _AT_A_TIME):
            some = cells[start : start + _AT_A_TIME]
            versions = await asyncio.gather(*map(self._ledger.cell_version, some))
            for cell, version in zip(some, versions, strict=True):
                if version is None:
                    self._is_cold(cell, in_use=cell in in_use)
                elif version != self._versions.get(cell) or cell in self._cold_since:
                    self._wanted.add(cell)
        await self._read(self._take_wanted())

    async def _look(self) -> None:
        self._news.clear()
        if self._clock.monotonic() >= self._next_whole:
            self._next_whole = self._clock.monotonic() + self._every_seconds
            await self.look_once()
        elif self._wanted:
            await self._read(self._take_wanted())

    async def _rest(self) -> None:
        await asyncio.sleep(_PAUSE_SECONDS)
        try:
            async with asyncio.timeout(max(0.0, self._next_whole - self._clock.monotonic())):
                await self._news.wait()
        except TimeoutError:
            return

    def _take_wanted(self) -> list[int]:
        wanted, self._wanted = sorted(self._wanted), set()
        return wanted

    async def _read(self, cells: Iterable[int]) -> None:
        for cell in cells:
            record = await self._read_cell(cell)
            if record is None:
                self._is_cold(cell, in_use=False)
            else:
                self._cold_since.pop(cell, None)
                self._versions[cell] = record.version
                self._seen[cell] = record
                self._registry.take_cell(record)

    async def _read_cell(self, cell: int) -> CellRecord | None:
        """The cell as it is now; of one that was seen before, what changed since is read."""
        seen = self._seen.get(cell)
        if seen is None:
            return await self._ledger.read_cell(cell)
        changes = await self._ledger.read_changes(cell, seen.version)
        if changes is None:
            return None
        seats = {} if changes.whole else {seat.index: seat for seat in seen.seats}
        for index in changes.free:
            seats.pop(index, None)
        seats |= {seat.index: seat for seat in changes.seats}
        return CellRecord(cell, changes.version, tuple(seats[index] for index in sorted(seats)))

    def _is_cold(self, cell: int, *, in_use: bool) -> None:
        """The cell has no memory: its nodes report, or it is empty for good."""
        now = self._clock.monotonic()
        self._versions.pop(cell, None)
        self._seen.pop(cell, None)
        since = self._cold_since.setdefault(cell, now)
        if now - since < self._registry.timeout_seconds:
            self._registry.far.cool(cell)
            self._registry.report((cell,))
            self._outbox.ask_cells((cell,))
            return
        self._registry.far.forget(cell)
        if not in_use:
            del self._cold_since[cell]
