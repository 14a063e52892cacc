"""Where in the fleet a job's languages are known, remembered for the jobs that come.

Nothing is listed when a node registers. The cells that know a job's languages are found when the
first such job asks, and kept; when the languages of a cell changed since, only that cell is
looked at again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random

from dragoman.live.snapshot.cell import CellView
from dragoman.live.snapshot.pools import Spoken

MAX_REMEMBERED = 1_024
"""Answers that are kept. Past it the oldest goes, and is found again when a job asks."""

_MAX_CHANGES = 4_096
"""Changes that are kept. An answer older than the oldest of them is found anew."""


class PoolShards:
    """The cells that have members of a pool, and how many; immutable.

    The order for drawing is made for the first draw: while nodes come in by the thousand, most of
    these are replaced before it.
    """

    __slots__ = ("_bounds", "_cells", "members", "total")

    def __init__(self, members: dict[int, int]) -> None:
        self.members = members
        self.total = sum(members.values())
        self._cells: tuple[int, ...] | None = None
        self._bounds: tuple[int, ...] = ()

    @property
    def cells(self) -> tuple[int, ...]:
        """The cells, lowest first."""
        if self._cells is None:
            self._cells = tuple(sorted(self.members))
            self._bounds = tuple(accumulate(self.members[cell] for cell in self._cells))
        return self._cells

    def draw(self, random: Random) -> int:
        """One cell, with weight by its members."""
        cells = self.cells
        if len(cells) == 1:
            return cells[0]
        return cells[bisect_right(self._bounds, int(random.random() * self.total))]


NO_SHARDS = PoolShards({})


class LanguageIndex:
    """Answers which cells know a set of languages; one index serves a fleet's every snapshot.

    A generation is the number of changes so far. A snapshot names the generation it was made at.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._changed: list[int] = []
        """Cells whose languages changed, the last change last."""
        self._found: dict[str, tuple[int, PoolShards]] = {}
        self._relatives: dict[Spoken, dict[str, int]] = {}
        """By stage and primary subtag: the tags that are known, and in how many cells."""

    def __len__(self) -> int:
        return len(self._found)

    def change(self, before: CellView | None, after: CellView) -> int:
        """A cell knows other languages than before; answers the new generation."""
        old = before.spoken.keys() if before is not None else set[Spoken]()
        new = after.spoken.keys()
        for spoken in new - old:
            tags = self._relatives.setdefault(_primary(spoken), {})
            tags[spoken[1]] = tags.get(spoken[1], 0) + 1
        for spoken in old - new:
            self._forget_tag(spoken)
        self.generation += 1
        self._changed.append(after.number)
        if len(self._changed) > _MAX_CHANGES:
            del self._changed[: _MAX_CHANGES // 2]
        return self.generation

    def shards(
        self,
        name: str,
        languages: Sequence[Spoken],
        generation: int,
        cells: Mapping[int, CellView],
    ) -> PoolShards:
        """The cells with nodes that know all the languages, which always have the same name."""
        found = self._found.get(name)
        if found is None:
            shards = _count(languages, cells, cells, {})
            if len(self._found) >= MAX_REMEMBERED:
                del self._found[next(iter(self._found))]
        elif generation == found[0]:
            return found[1]
        elif generation < found[0]:
            # An older snapshot asks; the newer ones keep their answer.
            return _count(languages, cells, cells, {})
        elif (changed := self._changes_since(found[0])) is None:
            shards = _count(languages, cells, cells, {})
        else:
            shards = _count(languages, set(changed), cells, found[1].members)
            if shards.members == found[1].members:
                shards = found[1]
        self._found[name] = (generation, shards)
        return shards

    def relatives(self, spoken: Spoken) -> list[str]:
        """Known tags of the same primary language, such as ``zh`` for ``zh-tw``; shortest first."""
        tags = self._relatives.get(_primary(spoken), {})
        return sorted((tag for tag in tags if tag != spoken[1]), key=lambda tag: (len(tag), tag))

    def _changes_since(self, generation: int) -> list[int] | None:
        """The cells that changed after a generation; None when that is no longer known."""
        count = self.generation - generation
        if count > len(self._changed):
            return None
        return self._changed[len(self._changed) - count :]

    def _forget_tag(self, spoken: Spoken) -> None:
        tags = self._relatives[_primary(spoken)]
        tags[spoken[1]] -= 1
        if not tags[spoken[1]]:
            del tags[spoken[1]]
        if not tags:
            del self._relatives[_primary(spoken)]


def _count(
    languages: Sequence[Spoken],
    numbers: Iterable[int],
    cells: Mapping[int, CellView],
    before: Mapping[int, int],
) -> PoolShards:
    """The members of each cell, looked at anew in the cells of these numbers."""
    members = dict(before)
    for number in numbers:
        view = cells.get(number)
        known = view.knowing(languages).bit_count() if view is not None else 0
        if known:
            members[number] = known
        else:
            members.pop(number, None)
    return PoolShards(members) if members else NO_SHARDS


def _primary(spoken: Spoken) -> Spoken:
    stage, tag = spoken
    return stage, tag.partition("-")[0]
