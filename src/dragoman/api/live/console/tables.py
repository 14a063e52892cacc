"""Rows that know when they changed, so that any number of watchers can be told what they missed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")

DEPARTURES_KEPT = 10_000
"""Rows that left and are still remembered; a watcher that was away longer begins anew."""


@dataclass(frozen=True, slots=True)
class TableChange(Generic[Key, Row]):
    """What became of a table since a version."""

    reset: bool
    """The rows below are all there are; whatever was known before is forgotten."""
    changed: list[Row]
    gone: list[Key]


class Table(Generic[Key, Row]):
    """A pure record of rows. A watcher costs nothing until it asks."""

    def __init__(self) -> None:
        self.version = 0
        self._rows: OrderedDict[Key, tuple[int, Row]] = OrderedDict()
        """By the version of their last change, the newest last."""
        self._gone: deque[tuple[int, Key]] = deque(maxlen=DEPARTURES_KEPT)
        self._complete_since = 0
        """Departures after this version are all remembered."""

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> Iterable[Key]:
        return self._rows.keys()

    def put(self, key: Key, row: Row) -> None:
        """A row as it is now; one that is as it was changes nothing."""
        known = self._rows.get(key)
        if known is not None and known[1] == row:
            return
        self.version += 1
        self._rows[key] = (self.version, row)
        self._rows.move_to_end(key)

    def remove(self, key: Key) -> None:
        if self._rows.pop(key, None) is None:
            return
        self.version += 1
        if len(self._gone) == DEPARTURES_KEPT:
            self._complete_since = self._gone[0][0]
        self._gone.append((self.version, key))

    def since(self, version: int | None) -> TableChange[Key, Row]:
        """What a watcher who knows the table as of a version has missed; None: knows nothing."""
        if version is None or version < self._complete_since or version > self.version:
            return TableChange(True, [row for _, row in self._rows.values()], [])
        changed: list[Row] = []
        for changed_at, row in reversed(self._rows.values()):
            if changed_at <= version:
                break
            changed.append(row)
        gone: list[Key] = []
        for left_at, key in reversed(self._gone):
            if left_at <= version:
                break
            if key not in self._rows:
                gone.append(key)
        return TableChange(False, changed, gone)
