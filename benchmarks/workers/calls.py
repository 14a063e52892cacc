"""What every worker calls for an item: a function that answers at once, or after 50 ms.

Needs nothing but the standard library, because peers import it in environments of their own.
"""

from __future__ import annotations

import asyncio
import time

CONCURRENCY = 32
"""Calls at once, of all workers together."""
LATENCY_SECONDS = 0.05


async def at_once(text: str) -> str:
    return text


async def later(text: str) -> str:
    await asyncio.sleep(LATENCY_SECONDS)
    return text


def blocking(text: str, latency_seconds: float) -> str:
    """The same for tools whose workers are threads."""
    if latency_seconds:
        time.sleep(latency_seconds)
    return text


def allowed_per_second(latency_seconds: float) -> float | None:
    """How many items a second the concurrency allows at most; None: no limit."""
    return CONCURRENCY / latency_seconds if latency_seconds else None
