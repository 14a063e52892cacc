"""A queue of names by the time the sweep must look at them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=str)

_SLACK = 64


class DueQueue(Generic[Name]):
    """Names with a due time that may move; the queue asks for it when it matters.

    Moving a due time later costs nothing: the old entry is corrected when its turn comes.
    """

    def __init__(self, due_at: Callable[[Name], int | None]) -> None:
        self._due_at = due_at
        self._entries: list[tuple[int, Name]] = []
        self._earliest: dict[Name, int] = {}

    def __len__(self) -> int:
        return len(self._earliest)

    def watch(self, name: Name, due_at_ms: int) -> None:
        """Look at the name at this time, unless it is looked at sooner anyway."""
        known = self._earliest.get(name)
        if known is None or due_at_ms < known:
            self._earliest[name] = due_at_ms
            heappush(self._entries, (due_at_ms, name))

    def forget(self, name: Name) -> None:
        """Nothing more is due; what is left in the heap is cleared away now and then."""
        self._earliest.pop(name, None)
        if len(self._entries) > 2 * len(self._earliest) + _SLACK:
            self._entries = [(at, name) for name, at in self._earliest.items()]
            heapify(self._entries)

    def due(self, now_ms: int, limit: int) -> list[Name]:
        """Names due now; they stay due until they are moved or forgotten."""
        found: list[Name] = []
        again: list[tuple[int, Name]] = []
        while self._entries and self._entries[0][0] <= now_ms and len(found) < limit:
            at, name = heappop(self._entries)
            if self._earliest.get(name) != at:
                continue
            # A name whose time moved back and forth may have two entries for one moment: the
            # second one finds it gone from here.
            del self._earliest[name]
            actual = self._due_at(name)
            if actual is None:
                continue
            if actual <= now_ms:
                found.append(name)
            again.append((actual, name))
        for actual, name in again:
            self.watch(name, actual)
        return found
