"""Time as the process's own CPU time: the neighbours' work on the same cores does not count.

The event loop never sleeps here. A task that waits yields to the others until the process
has worked for long enough, so that a moment is late by exactly the work that was in its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from time import process_time

_SEED = 11


async def until(moment: float) -> None:
    """Let others work until the process has used so many CPU seconds."""
    while process_time() < moment:  # noqa: ASYNC110  # CPU time rings no bell
        await asyncio.sleep(0)


async def arrivals(per_second: float, seconds: float) -> AsyncIterator[float]:
    """Random moments, each as soon as the event loop comes to it."""
    random = Random(_SEED)
    due = process_time()
    end = due + seconds
    while (due := due + random.expovariate(per_second)) < end:
        await until(due)
        yield due
