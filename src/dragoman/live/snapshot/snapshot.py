"""The whole fleet as a decision sees it: immutable, shared by reference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

from dragoman.ids import NodeId
from dragoman.live.snapshot.cell import CellView
from dragoman.live.snapshot.index import NO_SHARDS, LanguageIndex, PoolShards
from dragoman.live.snapshot.pools import PoolRule
from dragoman.live.snapshot.requirement import JobRequirement

_MAX_RELATIVES = 4
"""Relatives of one language that a refusal looks at."""

_MAX_EXCHANGES = 32
"""Pairs of relatives that a refusal looks at."""


class RuntimeSnapshot:
    """One consistent view. A change makes a new one that shares every cell but the changed."""

    __slots__ = ("_generation", "_index", "cells", "rule", "version")

    def __init__(
        self,
        rule: PoolRule,
        version: int,
        cells: dict[int, CellView],
        index: LanguageIndex,
        generation: int,
    ) -> None:
        self.rule = rule
        self.version = version
        self.cells = cells
        self._index = index
        self._generation = generation

    @classmethod
    def empty(cls, rule: PoolRule) -> RuntimeSnapshot:
        return cls(rule, 0, {}, LanguageIndex(), 0)

    def replacing(self, cell: CellView) -> RuntimeSnapshot:
        """The snapshot with one cell exchanged; an empty one disappears.

        Each snapshot is replaced once: those that descend from it share one index of languages.
        """
        cells = dict(self.cells)
        before = cells.pop(cell.number, None)
        if cell.members:
            cells[cell.number] = cell
        generation = self._generation
        if before is None or before.spoken is not cell.spoken:
            generation = self._index.change(before, cell)
        return RuntimeSnapshot(self.rule, self.version + 1, cells, self._index, generation)

    def shards(self, requirement: JobRequirement) -> PoolShards:
        """Where nodes know every language the requirement asks for, whatever their health."""
        if requirement.impossible:
            return NO_SHARDS
        return self._index.shards(
            requirement.name, requirement.languages, self._generation, self.cells
        )

    def near(self, requirement: JobRequirement) -> tuple[str, ...]:
        """Tags close to those asked for, such as ``zh`` for ``zh-TW``, that would be served.

        They are written as the nodes write them. Empty when no relative would be.
        """
        asked = list(dict.fromkeys(tag for pair in requirement.pairs for tag in pair))
        relatives = {tag: self._relatives(requirement, tag) for tag in asked}
        if not any(relatives.values()):
            return ()
        found: dict[str, None] = {}
        for instead in _exchanges(asked, relatives):
            served = self._served(requirement, instead)
            found.update(dict.fromkeys(served))
        return tuple(found)

    def _relatives(self, requirement: JobRequirement, tag: str) -> list[str]:
        """Known relatives of one language, by the stages that the requirement needs it for."""
        found: dict[str, None] = {}
        for stage, language in requirement.languages:
            if language == tag:
                found.update(dict.fromkeys(self._index.relatives((stage, tag))))
        return list(found)[:_MAX_RELATIVES]

    def _served(self, requirement: JobRequirement, instead: dict[str, str]) -> list[str]:
        """The exchanged tags as nodes write them, if nodes serve the pairs made of them."""
        pairs = tuple((instead.get(s, s), instead.get(t, t)) for s, t in requirement.pairs)
        if sum(s == t for s, t in pairs) > sum(s == t for s, t in requirement.pairs):
            return []  # A translation into itself is not what was asked for.
        other = JobRequirement(requirement.rule, pairs, requirement.pipeline, ())
        shards = self.shards(other)
        if not shards.cells:
            return []
        view = self.cells[shards.cells[0]]
        found = {tag: view.spelling((stage, tag)) for stage, tag in other.languages}
        return [found[tag] or tag for tag in instead.values()]


def _exchanges(asked: list[str], relatives: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    """Ways to put relatives in the place of tags: one tag at a time, then two together."""
    singles = [(tag, near) for tag in asked for near in relatives[tag]]
    yield from ({tag: near} for tag, near in singles)
    yield from (
        {tag: near, other: other_near}
        for (tag, near), (other, other_near) in islice(combinations(singles, 2), _MAX_EXCHANGES)
        if tag != other
    )


class SnapshotHolder:
    """The current snapshot; the registry alone writes it."""

    def __init__(self, rule: PoolRule) -> None:
        self.current = RuntimeSnapshot.empty(rule)
        self._cells: dict[NodeId, int] = {}

    def replace(self, cell: CellView) -> None:
        before = self.current.cells.get(cell.number)
        for node_id in before.indexes if before else ():
            if node_id not in cell.indexes and self._cells.get(node_id) == cell.number:
                del self._cells[node_id]
        for node_id in cell.indexes:
            self._cells[node_id] = cell.number
        self.current = self.current.replacing(cell)

    def find(self, node_id: NodeId) -> CellView | None:
        """The cell a node is in."""
        number = self._cells.get(node_id)
        return None if number is None else self.current.cells.get(number)
