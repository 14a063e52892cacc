"""The runtime domain: an immutable view of the fleet that decisions are made from."""

from dragoman.live.snapshot.cell import CellView
from dragoman.live.snapshot.facts import NodeFacts
from dragoman.live.snapshot.index import LanguageIndex, Shards
from dragoman.live.snapshot.pools import (
    Pair,
    PoolRule,
    Spoken,
    Stage,
    count_pools,
    is_in_a_pool,
    kind_of,
    node_pools,
    pool_languages,
    what_is_missing,
)
from dragoman.live.snapshot.requirement import Requirement, Requirements, stage_languages
from dragoman.live.snapshot.snapshot import RuntimeSnapshot, SnapshotHolder

__all__ = [
    "CellView",
    "LanguageIndex",
    "NodeFacts",
    "Pair",
    "PoolRule",
    "Requirement",
    "Requirements",
    "RuntimeSnapshot",
    "Shards",
    "SnapshotHolder",
    "Spoken",
    "Stage",
    "count_pools",
    "is_in_a_pool",
    "kind_of",
    "node_pools",
    "pool_languages",
    "stage_languages",
    "what_is_missing",
]
