"""Connections and sessions that have ended do not wait for the collector's own pace."""

from __future__ import annotations

import asyncio
import ctypes
import gc
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


def resident_kb() -> int:
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])
