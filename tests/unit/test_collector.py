"""Connections and sessions that have ended do not wait for the collector's own pace."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import collector
from dragoman.testing import run_virtual


class Ring:
    """Something that holds itself, as a connection and its handler do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_lived_for_a_while_and_ended_is_freed_within_a_minute() -> None:
    async def story() -> None:
        collector.calm_collector()
        ring = Ring()
        gone = weakref.ref(ring)
        gc.collect()  # it is among the oldest now
        del ring
        assert gone() is not None
        await asyncio.sleep(60)
        assert gone() is None

    run_virtual(story, seed=0)


def test_the_longer_a_look_takes_the_longer_the_next_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter(range(1_000))
    monkeypatch.setattr(collector, "thread_time", lambda: next(times) * 0.1)
    looked: list[object] = []

    async def story() -> None:
        collector.calm_collector()
        gc.callbacks.append(note)
        try:
            await asyncio.sleep(15 + 10 * 50 + 1)
        finally:
            gc.callbacks.remove(note)

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            looked.append(info["generation"])

    run_virtual(story, seed=0)
    assert looked.count(2) == 11


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_the_pages_of_a_burst_go_back_to_the_operating_system() -> None:
    async def story() -> None:
        collector.calm_collector()
        burst = [bytes(3_000) for _ in range(40_000)]
        kept = burst[::50]
        del burst
        before = resident_kb()
        await asyncio.sleep(60)
        assert before - resident_kb() > 80_000, "of 117 MB, a fiftieth is still in use"
        assert kept

    run_virtual(story, seed=0)


HEAPS = max(2, os.cpu_count() or 1)
THREADS = 4 * HEAPS
COUNT_HEAPS = f"""
import ctypes, threading
from dragoman.collector import share_heaps

share_heaps()
begun = threading.Barrier({THREADS} + 1)
counted = threading.Event()

def work():
    kept = [bytes(2_000) for _ in range(100)]
    begun.wait()
    counted.wait()

for _ in range({THREADS}):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
counted.set()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_many_threads_share_few_heaps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT_HEAPS], capture_output=True, text=True, check=True
    )
    assert 1 <= done.stdout.count("<heap nr=") <= HEAPS


HOLD_LARGE_BUFFERS = """
import ctypes
from dragoman.collector import share_heaps

share_heaps()

class Heaps(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Heaps
before = library.mallinfo2().arena
outliving = []
for _ in range(20):
    buffer = bytes(8 << 20)
    outliving.append(bytes(2_000))  # lies behind the buffer where both are in one heap
    del buffer
print(library.mallinfo2().arena - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="not glibc, or an old one")
def test_large_buffers_stay_out_of_the_heaps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOLD_LARGE_BUFFERS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1 << 20, "the buffers have 8 MiB each"


def resident_kb() -> int:
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])
