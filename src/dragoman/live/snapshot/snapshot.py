"""The whole fleet as a decision sees it: immutable, shared by reference."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from random import Random

from dragoman.ids import NodeId
from dragoman.live.snapshot.cell import CellView, node_pairs
from dragoman.live.snapshot.requirement import Pair, PoolRule, Requirement


class Shards:
    """The cells a pair has members in; immutable.

    The order for drawing is made when somebody draws: while nodes come in by the thousand, most
    of these are replaced before anybody does.
    """

    __slots__ = ("_bounds", "_cells", "members", "total")

    def __init__(self, members: dict[int, int], total: int | None = None) -> None:
        self.members = members
        self.total = sum(members.values()) if total is None else total
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


NO_SHARDS = Shards({})

Index = dict[tuple[PoolRule, Pair], Shards]


class RuntimeSnapshot:
    """One consistent view. A change makes a new one that shares every cell but the changed."""

    __slots__ = ("_index", "cells", "rule", "version")

    def __init__(
        self, rule: PoolRule, version: int, cells: dict[int, CellView], index: Index
    ) -> None:
        self.rule = rule
        self.version = version
        self.cells = cells
        self._index = index

    @classmethod
    def empty(cls, rule: PoolRule) -> RuntimeSnapshot:
        return cls(rule, 0, {}, {})

    def replacing(self, cell: CellView) -> RuntimeSnapshot:
        """The snapshot with one cell exchanged; an empty one disappears."""
        cells = dict(self.cells)
        before = cells.pop(cell.number, None)
        if cell.members:
            cells[cell.number] = cell
        index = self._index
        for rule in {self.rule, PoolRule.TEXT}:
            change = _membership_change(rule, before, cell)
            if change:
                index = _reindexed(dict(index), rule, cell.number, change)
        return RuntimeSnapshot(self.rule, self.version + 1, cells, index)

    def shards(self, requirement: Requirement) -> Shards:
        """Where the requirement's pool has members. For several pairs: the scarcest one's cells."""
        if requirement.impossible:
            return NO_SHARDS
        rule, pairs = requirement.rule, requirement.pairs
        if len(pairs) == 1:
            return self._index.get((rule, pairs[0]), NO_SHARDS)
        found = [self._index.get((rule, pair), NO_SHARDS) for pair in pairs]
        return min(found, key=lambda shards: shards.total)

    def pools(self, rule: PoolRule | None = None) -> dict[Pair, Shards]:
        """Every pool of a rule, the setting's by default."""
        wanted = rule or self.rule
        return {pair: shards for (known, pair), shards in self._index.items() if known is wanted}


def _membership_change(rule: PoolRule, before: CellView | None, after: CellView) -> dict[Pair, int]:
    """How many members each pair won or lost; only nodes whose facts changed are looked at."""
    old = before.nodes if before else {}
    change: dict[Pair, int] = {}
    for index in old.keys() | after.nodes.keys():
        was, now = old.get(index), after.nodes.get(index)
        if was is now or (was and now and was.languages == now.languages):
            continue
        for facts, step in ((was, -1), (now, 1)):
            for pair in node_pairs(rule, facts) if facts else ():
                change[pair] = change.get(pair, 0) + step
    return {pair: step for pair, step in change.items() if step}


def _reindexed(index: Index, rule: PoolRule, cell: int, change: dict[Pair, int]) -> Index:
    for pair, step in change.items():
        key = (rule, pair)
        before = index.get(key, NO_SHARDS)
        members = dict(before.members)
        members[cell] = members.get(cell, 0) + step
        if not members[cell]:
            del members[cell]
        if members:
            index[key] = Shards(members, before.total + step)
        else:
            index.pop(key, None)
    return index


class SnapshotHolder:
    """The current snapshot; written by the registry alone, read by everybody."""

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
