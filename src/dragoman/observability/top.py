"""The most frequent of very many names, in little memory."""

from __future__ import annotations

import msgspec


class KeyCount(msgspec.Struct, frozen=True):
    """A name and how often it was counted."""

    key: str
    count: int


class TopK:
    """Counts names that anyone may invent, and tells the `k` most frequent.

    Memory is bounded by the "space-saving" rule: when the table is full, a new name takes the place
    of the rarest one and inherits its count. A frequent name is never lost; a rare one may be
    counted too high, by at most the total divided by the table's size.
    """

    _NAMES_PER_PLACE = 8

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"top_k must be at least 1, not {k}")
        self._k = k
        self._capacity = k * self._NAMES_PER_PLACE
        self._counts: dict[str, int] = {}

    def add(self, key: str, count: int = 1) -> None:
        counts = self._counts
        if key in counts:
            counts[key] += count
        elif len(counts) < self._capacity:
            counts[key] = count
        else:
            rarest = min(counts, key=counts.__getitem__)
            counts[key] = counts.pop(rarest) + count

    def top(self) -> list[KeyCount]:
        """The most frequent names, most frequent first, equal ones by name."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return [KeyCount(key, count) for key, count in ranked[: self._k]]
