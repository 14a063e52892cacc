"""The ledger in one process's memory."""

from dragoman.live.ledger.memory.ledger import MemoryLedger

__all__ = ["MemoryLedger"]
