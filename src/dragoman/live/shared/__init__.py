"""What instances share: sessions, jobs, nodes and attempts, behind one interface.

`records` has what is asked, what is answered, and what is kept.
"""

from dragoman.live.shared import records
from dragoman.live.shared.interface import WAITING_MS, Cells, Shards, SharedLedger
from dragoman.live.shared.memory import MemorySharedLedger

__all__ = ["WAITING_MS", "Cells", "MemorySharedLedger", "Shards", "SharedLedger", "records"]
