"""Python's search for reference cycles, set for servers: seldom, but never far behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from time import thread_time

_YOUNG_OBJECTS = 20_000
"""How many more objects there are before the collector looks at the youngest."""

_EVERY_SECONDS = 15.0
_LONGEST_PAUSE_SECONDS = 0.02
"""Sockets wait for a look; one that takes longer is made seldom."""
_LOOKS_BETWEEN = 240
"""How many looks at the younger objects come after one at everything that took longer."""


def calm_collector() -> None:
    """Look for reference cycles less often, and never among what was made at the start.

    A server makes a few dozen objects a job or an item and hardly a cycle; at Python's own pace
    the search for them takes a quarter of the time. But each connection and each session is a
    cycle, and one that lived for a while would wait for days: so on the running loop they are
    looked for by the clock, for as long as that is quick.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 50, 100)
    _later(_look_at_everything)


def _look_at_everything() -> None:
    began = thread_time()
    gc.collect()
    took_seconds = thread_time() - began
    if took_seconds <= _LONGEST_PAUSE_SECONDS:
        _later(_look_at_everything)
    else:
        _later(partial(_look_at_the_younger, _LOOKS_BETWEEN))


def _look_at_the_younger(looks_left: int) -> None:
    """Only at what came since the last look, because there is too much of the rest."""
    gc.collect(1)
    if looks_left:
        _later(partial(_look_at_the_younger, looks_left - 1))
    else:
        _later(_look_at_everything)


def _later(look: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(_EVERY_SECONDS, look)
