"""What this process remembers of cells, so that it asks the right one first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from dragoman.ids import AttemptId

_REMEMBERED = 16_384


class Whereabouts:
    """In which cell an attempt was asked for, and which cells had no room lately.

    An attempt that may already hold or inherit a slot in some cell must ask there first, or it
    could come to hold two. That cells were full is a hint: it changes the order, never the answer.
    """

    def __init__(self) -> None:
        self._cells: OrderedDict[AttemptId, int] = OrderedDict()
        self._full: set[int] = set()

    def remember(self, attempt_id: AttemptId, cell: int) -> None:
        self._cells[attempt_id] = cell
        self._cells.move_to_end(attempt_id)
        if len(self._cells) > _REMEMBERED:
            self._cells.popitem(last=False)

    def forget(self, attempt_id: AttemptId, cell: int) -> None:
        """The attempt is over in this cell; what is known of another one stays."""
        if self._cells.get(attempt_id) == cell:
            del self._cells[attempt_id]

    def cell_of(self, attempt_id: AttemptId) -> int | None:
        return self._cells.get(attempt_id)

    def has_room(self, cell: int) -> None:
        self._full.discard(cell)

    def is_full(self, cell: int) -> None:
        self._full.add(cell)

    def order(
        self, attempt_id: AttemptId, cells: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The cells to ask: where the attempt may be, those that may have room, the others."""
        if len(cells) == 1:
            return list(cells)
        known = self._cells.get(attempt_id)
        full = self._full
        return sorted(cells, key=lambda entry: (entry[0] != known, entry[0] in full))
