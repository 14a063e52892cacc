"""Which items are tried: three of all of them, the same ones each time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random

import msgspec

from dragoman.lab.model import JsonValue, Turn

SAMPLE_ITEMS = 3

_SEED = 1
"""Fixed: the same dataset is estimated from the same items each time."""


class Sample(msgspec.Struct, frozen=True):
    """Some items of a dataset, and what is known of the others."""

    items: tuple[tuple[Turn, ...], ...]
    """The turns of each item."""
    total_items: int
    total_turns: int
    schema: dict[str, JsonValue]
    """The JSON-schema of a turn."""


def positions(count: int) -> list[int]:
    """The places, from 0, of the items that are tried of a dataset with so many."""
    chosen: dict[int, int] = {}
    for place, position in choices(Random(_SEED)):
        if position >= count:
            break
        chosen[place] = position
    return sorted(chosen.values())


class Drawn:
    """The items at those places of a dataset whose length is known only at its end."""

    def __init__(self) -> None:
        self.items = 0
        self.turns = 0
        self._choices = choices(Random(_SEED))
        self._next = next(self._choices)
        self._kept: dict[int, tuple[int, tuple[Turn, ...]]] = {}

    def add(self, batch: Sequence[tuple[Turn, ...]]) -> None:
        for turns in batch:
            place, position = self._next
            if self.items == position:
                self._kept[place] = (position, turns)
                self._next = next(self._choices)
            self.items += 1
            self.turns += len(turns)

    @property
    def sample(self) -> tuple[tuple[Turn, ...], ...]:
        """What was drawn, in the order of the dataset."""
        return tuple(turns for _, turns in sorted(self._kept.values(), key=lambda one: one[0]))


def drawn_from(batches: Iterable[Sequence[tuple[Turn, ...]]]) -> Drawn:
    """The sample of a dataset that is read in batches, with the count of everything."""
    drawn = Drawn()
    for batch in batches:
        drawn.add(batch)
    return drawn


def choices(random: Random) -> Iterator[tuple[int, int]]:
    """Which item takes which place of the sample, without end.

    Each item of a dataset of any length is in the sample with the same chance (Li's "Algorithm
    L"): after the first three, the gaps to the next item that replaces one are drawn.
    """
    for position in range(SAMPLE_ITEMS):
        yield position, position
    position = SAMPLE_ITEMS - 1
    share = 1.0
    while True:
        share *= (1.0 - random.random()) ** (1 / SAMPLE_ITEMS)
        position += 1 + math.floor(math.log(1.0 - random.random()) / math.log1p(-share))
        yield random.randrange(SAMPLE_ITEMS), position
