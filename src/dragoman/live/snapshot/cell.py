"""One cell of the snapshot: at most a hundred nodes, as bit masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from dragoman.ids import NodeId
from dragoman.live.protocol import ExclusionReason, ServiceType
from dragoman.live.snapshot.facts import NodeFacts
from dragoman.live.snapshot.requirement import Pair, PoolRule, Requirement, Spoken, Stage

Key = TypeVar("Key")


class CellView:
    """An immutable cell. Bit i of every mask is the node with index i."""

    __slots__ = (
        "_fit",
        "_left_out",
        "_pools",
        "calm",
        "features",
        "indexes",
        "members",
        "nodes",
        "number",
        "present",
        "public",
        "ready",
        "ready_types",
        "spoken",
        "unmarked",
    )

    def __init__(self, number: int, before: CellView | None = None) -> None:
        self.number = number
        self.nodes: dict[int, NodeFacts] = dict(before.nodes) if before else {}
        self.indexes: dict[NodeId, int] = dict(before.indexes) if before else {}
        self.members: int = before.members if before else 0
        self.ready: int = before.ready if before else 0
        self.public: int = before.public if before else 0
        self.calm: int = before.calm if before else 0
        self.spoken: dict[Spoken, int] = dict(before.spoken) if before else {}
        self.present: dict[ServiceType, int] = dict(before.present) if before else {}
        self.ready_types: dict[ServiceType, int] = dict(before.ready_types) if before else {}
        self.unmarked: dict[ServiceType, int] = dict(before.unmarked) if before else {}
        self.features: dict[str, int] = dict(before.features) if before else {}
        self._fit: dict[Requirement, int] = {}
        self._pools: dict[Requirement, int] = {}
        self._left_out: dict[Requirement, dict[ExclusionReason, int]] = {}

    @classmethod
    def of(cls, number: int, nodes: Iterable[NodeFacts]) -> CellView:
        view = cls(number)
        for facts in nodes:
            view._add(facts)
        return view

    def with_node(self, facts: NodeFacts) -> CellView:
        """The cell with one node added or changed; it may have had another place before."""
        view = self.without_node(self.indexes.get(facts.node_id, facts.index))
        if facts.index in view.nodes:
            view = view.without_node(facts.index)
        view._add(facts)
        return view

    def without_node(self, index: int) -> CellView:
        view = CellView(self.number, self)
        gone = view.nodes.pop(index, None)
        if gone is not None:
            del view.indexes[gone.node_id]
            view._clear(~(1 << index))
        return view

    def _add(self, facts: NodeFacts) -> None:
        bit = 1 << facts.index
        self.nodes[facts.index] = facts
        self.indexes[facts.node_id] = facts.index
        self.members |= bit
        self.ready |= bit if facts.ready else 0
        self.public |= bit if facts.public else 0
        self.calm |= 0 if facts.over_threshold else bit
        _mark(self.spoken, _spoken(facts), bit)
        _mark(self.present, facts.present_types(), bit)
        _mark(self.ready_types, facts.ready_types(), bit)
        _mark(self.unmarked, facts.unmarked_types(), bit)
        _mark(self.features, facts.features, bit)

    def _clear(self, keep: int) -> None:
        self.members &= keep
        self.ready &= keep
        self.public &= keep
        self.calm &= keep
        _keep(self.spoken, keep)
        _keep(self.present, keep)
        _keep(self.ready_types, keep)
        _keep(self.unmarked, keep)
        _keep(self.features, keep)

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

    def pool(self, requirement: Requirement) -> int:
        """Everybody in the pool of the requirement's pairs, whatever their health."""
        found = self._pools.get(requirement)
        if found is None:
            found = 0 if requirement.impossible else self._knowing(requirement.pool, self.members)
            self._pools[requirement] = found
        return found

    def fit(self, requirement: Requirement, welcome: int = 0) -> int:
        """Nodes that may carry the job, slots aside; those welcome need not be public."""
        if welcome & ~self.public:
            return self._fitting(requirement, welcome)
        found = self._fit.get(requirement)
        if found is None:
            found = self._fit[requirement] = self._fitting(requirement, 0)
        return found

    def left_out(self, requirement: Requirement, welcome: int = 0) -> dict[ExclusionReason, int]:
        """Who may not carry the job: each node under the first reason that holds."""
        if welcome & ~self.public:
            return self._sort_out(requirement, welcome)
        found = self._left_out.get(requirement)
        if found is None:
            found = self._left_out[requirement] = self._sort_out(requirement, 0)
        return found

    def lacking(self, requirement: Requirement, welcome: int = 0) -> dict[ExclusionReason, int]:
        """For each reason, everybody it holds for, whatever else is wrong with them."""
        pool = self.pool(requirement)
        return {
            ExclusionReason.NOT_READY: self.members & ~self.ready,
            ExclusionReason.NOT_PUBLIC: self.members & ~self.public & ~welcome,
            ExclusionReason.PAIR_UNSUPPORTED: self.members
            & ~self._knowing(requirement.spoken, pool),
            ExclusionReason.SERVICE_MISSING: self.members
            & ~_all(self.present, requirement.types, self.members),
            ExclusionReason.SERVICE_NOT_READY: self.members
            & ~_all(self.ready_types, requirement.types, self.members),
            ExclusionReason.FEATURE_UNSUPPORTED: self.members
            & ~_all(self.features, requirement.features, self.members),
            ExclusionReason.MODEL_UNAVAILABLE: self.members
            & ~_all(self.unmarked, requirement.types, self.members),
            ExclusionReason.RESOURCE_THRESHOLD: self.members & ~self.calm,
        }

    def _fitting(self, requirement: Requirement, welcome: int) -> int:
        fit = self.members
        for mask in self.left_out(requirement, welcome).values():
            fit &= ~mask
        return fit

    def _sort_out(self, requirement: Requirement, welcome: int) -> dict[ExclusionReason, int]:
        left = self.members
        found: dict[ExclusionReason, int] = {}
        for reason, lacking in self.lacking(requirement, welcome).items():
            if out := left & lacking:
                found[reason] = out
                left &= ~out
        return found

    def _knowing(self, languages: Iterable[Spoken], start: int) -> int:
        return _all(self.spoken, languages, start)


def node_pairs(rule: PoolRule, facts: NodeFacts) -> set[Pair]:
    """The pools a node belongs to under a rule."""
    known = facts.languages
    match rule:
        case PoolRule.ASR_TTS:
            return {(s, t) for s in known.asr_langs for t in known.tts_langs}
        case PoolRule.TEXT:
            return {(s, t) for s in known.nmt_langs for t in known.nmt_langs}
        case PoolRule.SEMANTIC_F2F:
            spoken = known.semantic_langs
            return {(s, t) for s in spoken for t in spoken if s != t}
        case PoolRule.SEMANTIC_ONE_WAY:
            targets = set(known.nmt_langs) & set(known.tts_langs)
            return {(s, t) for s in known.semantic_langs for t in targets if s != t}


def _spoken(facts: NodeFacts) -> list[Spoken]:
    known = facts.languages
    return [
        (stage, language)
        for stage, languages in (
            (Stage.ASR, known.asr_langs),
            (Stage.SEMANTIC, known.semantic_langs),
            (Stage.NMT, known.nmt_langs),
            (Stage.TTS, known.tts_langs),
        )
        for language in languages
    ]


def _mark(masks: dict[Key, int], keys: Iterable[Key], bit: int) -> None:
    for key in keys:
        masks[key] = masks.get(key, 0) | bit


def _keep(masks: dict[Key, int], keep: int) -> None:
    """Drop the bits that are not kept, and the keys nobody is left for."""
    for key, mask in list(masks.items()):
        if left := mask & keep:
            masks[key] = left
        else:
            del masks[key]


def _all(masks: Mapping[Key, int], keys: Iterable[Key], start: int) -> int:
    """The bits of start that every key's mask has."""
    for key in keys:
        start &= masks.get(key, 0)
    return start
