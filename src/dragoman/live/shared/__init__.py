"""What instances share: sessions, jobs, nodes and attempts, behind one interface.

`records` has what is asked, what is answered, and what is kept; `check` says what does not fit
together. What works on Redis needs the extra `cluster`, and is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from dragoman.extras import require_extra
from dragoman.live.shared import check, records
from dragoman.live.shared.hot import HotOperations, hot_of
from dragoman.live.shared.interface import PROMISED_MS, WAITING_MS, Cells, Shards, SharedLedger
from dragoman.live.shared.memory import MemorySharedLedger

if TYPE_CHECKING:
    from dragoman.live.shared.redis import KEY_FAMILIES, RedisCheck, RedisSharedLedger

__all__ = [
    "KEY_FAMILIES",
    "PROMISED_MS",
    "WAITING_MS",
    "Cells",
    "HotOperations",
    "MemorySharedLedger",
    "RedisCheck",
    "RedisSharedLedger",
    "Shards",
    "SharedLedger",
    "check",
    "hot_of",
    "records",
]


def __getattr__(name: str) -> Any:
    if name in {"KEY_FAMILIES", "RedisCheck", "RedisSharedLedger"}:
        require_extra("cluster", "A shared ledger on Redis")
        from dragoman.live.shared import redis

        return getattr(redis, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
