"""What instances share: sessions, jobs, nodes and attempts, behind one interface.

`records` has what is asked, what is answered, and what is kept. `RedisSharedLedger` needs the extra
`cluster`, and is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from dragoman.extras import require_extra
from dragoman.live.shared import records
from dragoman.live.shared.interface import WAITING_MS, Cells, Shards, SharedLedger
from dragoman.live.shared.memory import MemorySharedLedger

if TYPE_CHECKING:
    from dragoman.live.shared.redis import RedisSharedLedger

__all__ = [
    "WAITING_MS",
    "Cells",
    "MemorySharedLedger",
    "RedisSharedLedger",
    "Shards",
    "SharedLedger",
    "records",
]


def __getattr__(name: str) -> Any:
    if name == "RedisSharedLedger":
        require_extra("cluster", "A shared ledger on Redis")
        from dragoman.live.shared.redis import RedisSharedLedger

        return RedisSharedLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
