"""Memory of processes that run for weeks: what is free is found, used again, and given back.

Python's search for reference cycles is set for servers: seldom, but never far behind. After each
search the C library's free pages go back to the operating system.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from functools import cache
from time import thread_time

_YOUNG_OBJECTS = 20_000
"""How many more objects there are before the collector looks at the youngest."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""The names of settings in glibc's malloc.h."""
_FEWEST_HEAPS = 2
_LARGE_BYTES = 1 << 20
"""A buffer from this size on gets pages of its own, which are given back with it."""
_FREE_BYTES = 2 * _LARGE_BYTES
"""How much may lie free at the end of a heap between two looks."""

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


def share_heaps(most: int | None = None) -> None:
    """Let threads share few heaps, where the C library is glibc; called before there are threads.

    By itself, glibc makes up to eight heaps for each core, so that nearly each thread has its own.
    What one thread has freed is then of no use to the others: in the lab's two dozen threads half
    as much again as is in use lies free in pages that are not empty, and more with every day.
    `most` heaps are enough where one thread does nearly all the work; by default as many as cores.

    Large buffers stay out of the heaps. By itself, glibc puts buffers of up to 32 MiB into them
    once a buffer of that size was freed, and small blocks that outlive them keep their pages.
    """
    trim, configure = _glibc("malloc_trim"), _glibc("mallopt")
    # Another C library may have the second and mean something else by the number.
    if trim is not None and configure is not None:
        configure(_M_ARENA_MAX, most or max(_FEWEST_HEAPS, os.cpu_count() or 1))
        configure(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        configure(_M_TRIM_THRESHOLD, _FREE_BYTES)


def return_free_pages() -> None:
    """Give the C library's free pages back, where it is glibc.

    By itself, glibc gives back only what lies at the end of its heap. One small block that outlives
    a burst keeps all the free pages before it, and the resident memory of a server never falls.
    """
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _glibc(name: str) -> Callable[..., object] | None:
    """A function of glibc; None where the C library has no such function."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return found


def _look() -> None:
    began = thread_time()
    gc.collect()
    return_free_pages()
    took_seconds = thread_time() - began
    wait_seconds = max(_SOONEST_SECONDS, took_seconds / _LARGEST_SHARE)
    asyncio.get_running_loop().call_later(wait_seconds, _look)
