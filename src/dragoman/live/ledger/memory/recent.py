"""A tenant's jobs in the order in which they were made, however many there are."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from dragoman.ids import JobId

Made = tuple[int, JobId]
"""When a job was made, and its name."""

_BLOCK = 512


class RecentJobs:
    """Jobs sorted by age, in blocks: adding, removing and finding one looks at few others."""

    def __init__(self) -> None:
        self._blocks: list[list[Made]] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, made: Made) -> None:
        """Nearly always the newest."""
        blocks = self._blocks
        if not blocks:
            blocks.append([made])
            return
        newest = blocks[-1]
        if made > newest[-1] and len(newest) < _BLOCK:
            newest.append(made)
            return
        position = self._block_of(made)
        block = self._blocks[position]
        insort(block, made)
        if len(block) > _BLOCK:
            # All but the last block are as good as full: jobs come in their order.
            at = _BLOCK if position == len(self._blocks) - 1 else _BLOCK // 2
            self._blocks.insert(position + 1, block[at:])
            del block[at:]

    def remove(self, made: Made) -> None:
        position = self._block_of(made)
        block = self._blocks[position]
        del block[bisect_left(block, made)]
        if not block:
            del self._blocks[position]

    def newest(self, before: Made | None = None) -> Iterator[JobId]:
        """The names, the newest first; of those made before, if that is said."""
        if not self._blocks:
            return
        last = len(self._blocks) - 1 if before is None else self._block_of(before)
        for position in range(last, -1, -1):
            block = self._blocks[position]
            end = len(block) if before is None or position < last else bisect_left(block, before)
            for _, job_id in reversed(block[:end]):
                yield job_id

    def _block_of(self, made: Made) -> int:
        """The block that the job is in, or belongs in."""
        low, high = 0, len(self._blocks)
        while high - low > 1:
            middle = (low + high) // 2
            if self._blocks[middle][0] <= made:
                low = middle
            else:
                high = middle
        return low
