"""What a fuzzer's victim holds: it must be no more at the end than after the first tenth.

The first tenth loads what is loaded once and fills what has a fixed size. What comes after it may
leave nothing behind: memory, open descriptors and tasks are compared with stated bounds.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FIRST_SHARE = 0.1


class Grown(AssertionError):
    """Raised when more is held at the end than after the first tenth."""


@dataclass(frozen=True)
class Held:
    """What processes hold."""

    memory_bytes: int
    """What is resident."""
    descriptors: int
    tasks: int = 0
    """Those of the running event loop, where the victim is in this process."""

    def __str__(self) -> str:
        megabytes = self.memory_bytes / 1e6
        return f"{megabytes:.1f} MB, {self.descriptors} descriptors, {self.tasks} tasks"


class Growth:
    """Compares what is held after the first tenth of a run with what is held at its end."""

    def __init__(self, held: Callable[[], Held], total: int, most: Held) -> None:
        """held: looks at the victim; most: how much more it may hold at the end."""
        self._held = held
        self._first = max(1, round(total * FIRST_SHARE))
        self._most = most
        self._before: Held | None = None

    def is_due(self, number: int) -> bool:
        """Whether the first tenth is over, now that so many are done, and was not looked at yet."""
        return self._before is None and number >= self._first

    def done(self, number: int) -> None:
        """So many of the run are done."""
        if self.is_due(number):
            self._before = self._held()

    def check(self) -> str:
        """What was held then and now; raises Grown when it is too much more."""
        before, after = self._before, self._held()
        assert before is not None, "the first tenth is over"
        told = f"after the first tenth {before}; at the end {after}"
        if (
            after.memory_bytes - before.memory_bytes > self._most.memory_bytes
            or after.descriptors - before.descriptors > self._most.descriptors
            or after.tasks - before.tasks > self._most.tasks
        ):
            raise Grown(f"it has grown: {told}; it may grow by {self._most}")
        return told


def held_here() -> Held:
    """What this process holds."""
    gc.collect()
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:  # no event loop is running
        tasks = 0
    return Held(*_held_by([os.getpid()]), tasks)


def held_by_family(pid: int) -> Held:
    """What a process and everything that it started hold."""
    return Held(*_held_by(_family(pid)))


def _held_by(pids: Sequence[int]) -> tuple[int, int]:
    """Bytes in memory, and open descriptors."""
    memory_bytes = descriptors = 0
    for pid in pids:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except FileNotFoundError:  # it has ended meanwhile
            continue
        memory_bytes += pages * resource.getpagesize()
    return memory_bytes, descriptors


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except FileNotFoundError:  # the thread has ended meanwhile
            continue
        for child in children:
            found += _family(int(child))
    return found
