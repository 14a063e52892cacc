"""Which ledger a server keeps its slots and jobs in."""

from __future__ import annotations

from dragoman.clock import Clock
from dragoman.live.ledger import Ledger, MemoryLedger
from dragoman.randomness import Randomness
from dragoman.settings import Settings


def open_ledger(settings: Settings, clock: Clock, randomness: Randomness) -> Ledger:
    """The ledger that the settings ask for; nothing is connected yet."""
    pools = settings.scheduler.pools
    return MemoryLedger(
        clock,
        randomness.stream("ledger"),
        cell_size=pools.cell_size,
        max_cells=pools.max_cells,
    )
