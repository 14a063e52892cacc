"""What instances share: sessions, jobs, nodes and attempts, behind one interface."""

from dragoman.live.shared.interface import Cells, Shards, SharedLedger

__all__ = ["Cells", "Shards", "SharedLedger"]
