"""One cell of the snapshot: at most a hundred nodes, as bit masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from dragoman.ids import NodeId
from dragoman.live.protocol import ExclusionReason, NamedService, NamedServices, ServiceType
from dragoman.live.snapshot.facts import NodeFacts
from dragoman.live.snapshot.pools import Spoken, spelling, spoken_languages
from dragoman.live.snapshot.requirement import JobRequirement

Key = TypeVar("Key")
Value = TypeVar("Value")

NamedMasks = Mapping[NamedService, int]

MAX_REMEMBERED = 512
"""Requirements whose candidates a cell remembers. Past it the oldest goes: clients choose what
they require, and the memory they take that way has an end."""


class CellView:
    """An immutable cell. Bit i of every mask is the node with index i."""

    __slots__ = (
        "_fit",
        "_left_out",
        "_services",
        "calm",
        "features",
        "here",
        "indexes",
        "members",
        "nodes",
        "number",
        "present",
        "present_services",
        "public",
        "ready",
        "ready_services",
        "ready_types",
        "resting",
        "spoken",
        "unmarked",
        "unmarked_services",
    )

    def __init__(self, number: int, before: CellView | None = None) -> None:
        self.number = number
        self.nodes: dict[int, NodeFacts] = dict(before.nodes) if before else {}
        self.indexes: dict[NodeId, int] = dict(before.indexes) if before else {}
        self.members: int = before.members if before else 0
        self.ready: int = before.ready if before else 0
        self.public: int = before.public if before else 0
        self.calm: int = before.calm if before else 0
        self.resting: int = before.resting if before else 0
        self.here: int = before.here if before else 0
        # Shared until a node's languages change: most changes are of health.
        self.spoken: Mapping[Spoken, int] = before.spoken if before else {}
        # Shared until a node's services change.
        self.present_services: NamedMasks = before.present_services if before else {}
        self.ready_services: NamedMasks = before.ready_services if before else {}
        self.unmarked_services: NamedMasks = before.unmarked_services if before else {}
        self.present: dict[ServiceType, int] = dict(before.present) if before else {}
        self.ready_types: dict[ServiceType, int] = dict(before.ready_types) if before else {}
        self.unmarked: dict[ServiceType, int] = dict(before.unmarked) if before else {}
        self.features: dict[str, int] = dict(before.features) if before else {}
        self._fit: dict[JobRequirement, int] = {}
        self._left_out: dict[JobRequirement, dict[ExclusionReason, int]] = {}
        self._services: dict[tuple[int, NamedServices], Mapping[ServiceType, str]] = {}

    @classmethod
    def of(cls, number: int, nodes: Iterable[NodeFacts]) -> CellView:
        return cls(number).with_nodes({facts.index: facts for facts in nodes})

    def services_of(self, index: int, named: NamedServices) -> Mapping[ServiceType, str]:
        """What does each kind of work of a job that names these services on a node."""
        found = self._services.get((index, named))
        if found is None:
            if len(self._services) >= MAX_REMEMBERED:
                self._services.clear()
            found = self._services[index, named] = self.nodes[index].services_for(named)
        return found

    def with_node(self, facts: NodeFacts) -> CellView:
        """The cell with one node added or changed; it may have had another place before."""
        return self._changed({facts.index: facts})

    def without_node(self, index: int) -> CellView:
        return self._changed({index: None})

    def with_nodes(self, nodes: Mapping[int, NodeFacts]) -> CellView:
        """The cell with these nodes and no others; what stays as it was is not looked at."""
        changes: dict[int, NodeFacts | None] = {
            index: facts for index, facts in nodes.items() if self.nodes.get(index) != facts
        }
        changes.update(dict.fromkeys(self.nodes.keys() - nodes.keys()))
        return self._changed(changes)

    def _changed(self, changes: Mapping[int, NodeFacts | None]) -> CellView:
        """The cell with other nodes in some places; None: with none."""
        view = CellView(self.number, self)
        spoken: dict[Spoken, int] | None = None
        named: tuple[dict[NamedService, int], ...] | None = None
        leaving: dict[int, NodeFacts] = {}
        for index, facts in changes.items():
            if index in view.nodes:
                leaving[index] = view.nodes[index]
            moved = view.indexes.get(facts.node_id) if facts is not None else None
            if moved is not None and changes.get(moved) is None:
                leaving[moved] = view.nodes[moved]
        for index, gone in leaving.items():
            after = changes.get(index)
            if after is None or after.languages != gone.languages:
                spoken = dict(self.spoken) if spoken is None else spoken
                _unmark(spoken, spoken_languages(gone.languages), 1 << index)
            if after is None or not after.has_same_services(gone):
                named = self._named_services() if named is None else named
                _unmark(named[0], gone.present_services(), 1 << index)
                _unmark(named[1], gone.ready_services(), 1 << index)
                _unmark(named[2], gone.unmarked_services(), 1 << index)
            view._remove(gone, index)
        for index, facts in changes.items():
            if facts is None:
                continue
            was = leaving.get(index)
            if was is None or was.languages != facts.languages:
                spoken = dict(self.spoken) if spoken is None else spoken
                _mark(spoken, spoken_languages(facts.languages), 1 << index)
            if was is None or not facts.has_same_services(was):
                named = self._named_services() if named is None else named
                _mark(named[0], facts.present_services(), 1 << index)
                _mark(named[1], facts.ready_services(), 1 << index)
                _mark(named[2], facts.unmarked_services(), 1 << index)
            view._add(facts)
        if spoken is not None:
            view.spoken = spoken
        if named is not None:
            view.present_services, view.ready_services, view.unmarked_services = named
        return view

    def _named_services(self) -> tuple[dict[NamedService, int], ...]:
        return dict(self.present_services), dict(self.ready_services), dict(self.unmarked_services)

    def _add(self, facts: NodeFacts) -> None:
        bit = 1 << facts.index
        self.nodes[facts.index] = facts
        self.indexes[facts.node_id] = facts.index
        self.members |= bit
        self.ready |= bit if facts.ready else 0
        self.public |= bit if facts.public else 0
        self.calm |= 0 if facts.over_threshold else bit
        self.resting |= bit if facts.resting else 0
        self.here |= bit if facts.here else 0
        _mark(self.present, facts.present_types(), bit)
        _mark(self.ready_types, facts.ready_types(), bit)
        _mark(self.unmarked, facts.unmarked_types(), bit)
        _mark(self.features, facts.features, bit)

    def _remove(self, facts: NodeFacts, index: int) -> None:
        bit = 1 << index
        del self.nodes[index]
        del self.indexes[facts.node_id]
        self.members &= ~bit
        self.ready &= ~bit
        self.public &= ~bit
        self.calm &= ~bit
        self.resting &= ~bit
        self.here &= ~bit
        _unmark(self.present, facts.present_types(), bit)
        _unmark(self.ready_types, facts.ready_types(), bit)
        _unmark(self.unmarked, facts.unmarked_types(), bit)
        _unmark(self.features, facts.features, bit)

    def mask(self, node_ids: Iterable[NodeId]) -> int:
        """The bits of these nodes, as far as they are in this cell."""
        found = 0
        for node_id in node_ids:
            index = self.indexes.get(node_id)
            if index is not None:
                found |= 1 << index
        return found

    def node_ids(self, mask: int) -> list[NodeId]:
        return [facts.node_id for index, facts in self.nodes.items() if mask >> index & 1]

    def pool(self, requirement: JobRequirement) -> int:
        """The nodes in the pools of the requirement's pairs, whatever their health."""
        return 0 if requirement.impossible else self.knowing(requirement.pool)

    def knowing(self, languages: Iterable[Spoken]) -> int:
        """The nodes that know all these languages."""
        return _all(self.spoken, languages, self.members)

    def offering(self, requirement: JobRequirement) -> int:
        """The nodes that have every service that is asked for by name, running or not."""
        return _all(self.present_services, requirement.services, self.members)

    def _depending(self, services: Iterable[NamedService]) -> int:
        """The nodes that can do a stage with one of these services, and with no other."""
        found = 0
        for stage, name in services:
            having = self.unmarked_services.get((stage, name), 0)
            for index, facts in self.nodes.items() if having else ():
                if having >> index & 1 and facts.depends_on(stage, name):
                    found |= 1 << index
        return found

    def spelling(self, spoken: Spoken) -> str | None:
        """How the first node that knows a language writes it."""
        mask = self.spoken.get(spoken, 0)
        if not mask:
            return None
        return spelling(self.nodes[(mask & -mask).bit_length() - 1].languages, spoken)

    def fit(self, requirement: JobRequirement, welcome: int = 0) -> int:
        """Nodes that may carry the job, slots aside; those welcome need not be public."""
        if welcome & ~self.public:
            return self._fitting(requirement, welcome)
        found = self._fit.get(requirement)
        if found is None:
            found = self._fitting(requirement, 0)
            _remember(self._fit, requirement, found)
        return found

    def left_out(self, requirement: JobRequirement, welcome: int = 0) -> dict[ExclusionReason, int]:
        """The nodes that may not carry the job, each under the first reason that holds."""
        if welcome & ~self.public:
            return self._sort_out(requirement, welcome)
        found = self._left_out.get(requirement)
        if found is None:
            found = self._sort_out(requirement, 0)
            _remember(self._left_out, requirement, found)
        return found

    def lacking(self, requirement: JobRequirement, welcome: int = 0) -> dict[ExclusionReason, int]:
        """For each reason, the nodes it holds for, whatever else is wrong with them."""
        pool = self.pool(requirement)
        members, named = self.members, requirement.services
        return {
            ExclusionReason.NOT_READY: self.members & ~self.ready,
            ExclusionReason.NOT_PUBLIC: self.members & ~self.public & ~welcome,
            ExclusionReason.PAIR_UNSUPPORTED: self.members
            & ~_all(self.spoken, requirement.spoken, pool),
            ExclusionReason.SERVICE_MISSING: self.members
            & ~_all(self.present, requirement.types, self.offering(requirement))
            | self._depending(requirement.without),
            ExclusionReason.SERVICE_NOT_READY: self.members
            & ~_all(self.ready_types, requirement.types, _all(self.ready_services, named, members)),
            ExclusionReason.FEATURE_UNSUPPORTED: self.members
            & ~_all(self.features, requirement.features, self.members),
            ExclusionReason.MODEL_UNAVAILABLE: self.members
            & ~_all(self.unmarked, requirement.types, _all(self.unmarked_services, named, members)),
            ExclusionReason.RESOURCE_THRESHOLD: self.members & ~self.calm,
        }

    def _fitting(self, requirement: JobRequirement, welcome: int) -> int:
        fit = self.members
        for mask in self.left_out(requirement, welcome).values():
            fit &= ~mask
        return fit

    def _sort_out(self, requirement: JobRequirement, welcome: int) -> dict[ExclusionReason, int]:
        left = self.members
        found: dict[ExclusionReason, int] = {}
        for reason, lacking in self.lacking(requirement, welcome).items():
            if out := left & lacking:
                found[reason] = out
                left &= ~out
        return found


def _mark(masks: dict[Key, int], keys: Iterable[Key], bit: int) -> None:
    for key in keys:
        masks[key] = masks.get(key, 0) | bit


def _unmark(masks: dict[Key, int], keys: Iterable[Key], bit: int) -> None:
    """Drop a node's bit, and the keys that no node is left for."""
    for key in keys:
        left = masks.get(key, 0) & ~bit
        if left:
            masks[key] = left
        else:
            masks.pop(key, None)


def _remember(
    answers: dict[JobRequirement, Value], requirement: JobRequirement, answer: Value
) -> None:
    if len(answers) >= MAX_REMEMBERED:
        del answers[next(iter(answers))]
    answers[requirement] = answer


def _all(masks: Mapping[Key, int], keys: Iterable[Key], start: int) -> int:
    """The bits of start that every key's mask has."""
    for key in keys:
        start &= masks.get(key, 0)
    return start
