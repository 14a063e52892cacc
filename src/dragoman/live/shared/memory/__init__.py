"""The shared ledger in one process's memory."""

from dragoman.live.shared.memory.ledger import MemorySharedLedger

__all__ = ["MemorySharedLedger"]
