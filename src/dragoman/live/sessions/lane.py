"""The utterances of one target language, in the order they were spoken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

P = TypeVar("P")


class End(msgspec.Struct, Generic[P], frozen=True):
    """How an utterance ended for one target: with a result, or with the reason for none."""

    payload: P | None
    reason: str | None
    size_bytes: int
    came_at: float


class Lane(Generic[P]):
    """Holds ends back until every utterance before them has ended too."""

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        # Utterances without an end, and since when no job works on them.
        self._unended: dict[int, float | None] = {}
        # In the order they came.
        self._held: dict[int, End[P]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[int, P | None]]:
        """The utterances in their order, each with its result where that is held back."""
        for index in self._order:
            end = self._held.get(index)
            yield index, end.payload if end is not None else None

    @property
    def held(self) -> int:
        """How many ends wait for one before them."""
        return len(self._held)

    @property
    def head(self) -> int:
        """The utterance whose turn it is."""
        return self._order[0]

    def expects(self, index: int) -> bool:
        """Whether the utterance is here and has no end yet."""
        return index in self._unended

    def open(self, index: int) -> None:
        self._order.append(index)
        self._unended[index] = None

    def end(self, index: int, end: End[P]) -> None:
        del self._unended[index]
        self._held[index] = end

    def set_abandoned(self, index: int, since: float | None) -> None:
        """No job works on the utterance since then; None: one does again."""
        if index in self._unended and (since is None or self._unended[index] is None):
            self._unended[index] = since

    def take_ready(self) -> Iterator[tuple[int, End[P]]]:
        """The ends whose turn has come."""
        while self._order and self._order[0] in self._held:
            index = self._order.popleft()
            yield index, self._held.pop(index)

    def give_up_at(self, grace_seconds: float) -> float | None:
        """When the utterance that blocks the others is to be announced missing.

        Everything held blocks on it, so the wait counts from the first of them that came.
        """
        if not self._held:
            return None
        abandoned_since = self._unended[self.head]
        if abandoned_since is None:
            return None
        blocks_since = next(iter(self._held.values())).came_at
        return max(abandoned_since, blocks_since) + grace_seconds
