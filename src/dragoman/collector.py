"""Python's search for reference cycles, set for servers: seldom, but never far behind.

After each search the C library's free pages go back to the operating system.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from functools import cache
from time import thread_time

_YOUNG_OBJECTS = 20_000
"""How many more objects there are before the collector looks at the youngest."""

_SOONEST_SECONDS = 15.0
_LARGEST_SHARE = 0.002
"""Sockets wait for a look, and so looks take at most this share of the time: one that takes 100 ms
is followed by the next after 50 s. Between two looks, what ended waits to be freed."""


def calm_collector() -> None:
    """Look for reference cycles less often, and never among what was made at the start.

    A server makes a few dozen objects a job or an item and hardly a cycle; at Python's own pace
    the search for them takes a quarter of the time. But each connection and each session is a
    cycle, and one that lived for a while would wait for days: so on the running loop they are
    looked for by the clock.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 50, 100)
    asyncio.get_running_loop().call_later(_SOONEST_SECONDS, _look)


def return_free_pages() -> None:
    """Give the C library's free pages back, where it is glibc.

    By itself, glibc gives back only what lies at the end of its heap. One small block that outlives
    a burst keeps all the free pages before it, and the resident memory of a server never falls.
    """
    trim = _page_returner()
    if trim is not None:
        trim(0)


@cache
def _page_returner() -> Callable[[int], object] | None:
    """glibc's malloc_trim; None where the C library has no such function."""
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return trim


def _look() -> None:
    began = thread_time()
    gc.collect()
    return_free_pages()
    took_seconds = thread_time() - began
    wait_seconds = max(_SOONEST_SECONDS, took_seconds / _LARGEST_SHARE)
    asyncio.get_running_loop().call_later(wait_seconds, _look)
