"""Reading the cells of the fleet, so that nodes of other instances are known here too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.clock import Clock
from dragoman.errors import DependencyDown
from dragoman.live.fleet import Registry
from dragoman.live.gateway.cluster.outbox import Outbox
from dragoman.live.ledger import Seats
from dragoman.observability import get_logger

log = get_logger("dragoman.cluster")

_AT_A_TIME = 100
"""Cells that are asked for at once."""

_PAUSE_SECONDS = 0.02
"""Between two looks: news that come together are looked into together."""


class FarCells:
    """Fetches the cells whose version moved, now and then, and those that news came of at once."""

    def __init__(
        self,
        ledger: Seats,
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
            record = await self._ledger.read_cell(cell)
            if record is None:
                self._is_cold(cell, in_use=False)
            else:
                self._cold_since.pop(cell, None)
                self._versions[cell] = record.version
                self._registry.take_cell(record)

    def _is_cold(self, cell: int, *, in_use: bool) -> None:
        """The cell has no memory: its nodes report, or it is empty for good."""
        now = self._clock.monotonic()
        self._versions.pop(cell, None)
        since = self._cold_since.setdefault(cell, now)
        if now - since < self._registry.timeout_seconds:
            self._registry.far.cool(cell)
            self._registry.report((cell,))
            self._outbox.ask_cells((cell,))
            return
        self._registry.far.forget(cell)
        if not in_use:
            del self._cold_since[cell]
