"""A tenant's jobs in the order in which they were made, however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from dragoman.ids import JobId

Made = tuple[int, JobId]
"""When a job was made, in milliseconds, and its name."""

_BLOCK = 512

_MADE_MS = itemgetter(0)


class RecentJobs:
    """Jobs by age, in blocks: adding, removing and finding one looks at few others.

    Jobs of one millisecond stand in any order here, so that adding one is nearly always an append;
    who reads them gets them by their names.
    """

    def __init__(self) -> None:
        self._blocks: list[list[Made]] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, made: Made) -> None:
        blocks = self._blocks
        if blocks:
            newest = blocks[-1]
            if made[0] >= newest[-1][0]:
                if len(newest) < _BLOCK:
                    newest.append(made)
                else:
                    blocks.append([made])
                return
            insort(blocks[self._last_block(made[0])], made, key=_MADE_MS)
        else:
            blocks.append([made])

    def remove(self, made: Made) -> None:
        for position in range(self._last_block(made[0]), -1, -1):
            block = self._blocks[position]
            for index in range(bisect_left(block, made[0], key=_MADE_MS), len(block)):
                if block[index] == made:
                    del block[index]
                    if not block:
                        del self._blocks[position]
                    return

    def newest(self, before: Made | None = None) -> Iterator[JobId]:
        """The names, the newest first; of those made before, if that is said."""
        for _, made_at_once in groupby(self._backwards(before), _MADE_MS):
            for made in sorted(made_at_once, reverse=True):
                if before is None or made < before:
                    yield made[1]

    def _backwards(self, before: Made | None) -> Iterator[Made]:
        """From the newest on, or from the last of the millisecond that is named."""
        last = len(self._blocks) - 1 if before is None else self._last_block(before[0])
        for position in range(last, -1, -1):
            block = self._blocks[position]
            end = len(block)
            if before is not None and position == last:
                end = bisect_right(block, before[0], key=_MADE_MS)
            yield from reversed(block[:end])

    def _last_block(self, made_ms: int) -> int:
        """The last block that begins at that time or before; the first, if none does."""
        low, high = 0, len(self._blocks)
        while high - low > 1:
            middle = (low + high) // 2
            if self._blocks[middle][0][0] <= made_ms:
                low = middle
            else:
                high = middle
        return low
