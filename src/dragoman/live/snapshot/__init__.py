"""The runtime domain: an immutable view of the fleet that decisions are made from."""

from dragoman.live.snapshot.cell import CellView
from dragoman.live.snapshot.facts import NodeFacts
from dragoman.live.snapshot.index import LanguageIndex, PoolShards
from dragoman.live.snapshot.pools import (
    Pair,
    PipelineStage,
    PoolRule,
    Spoken,
    count_pools,
    is_in_a_pool,
    kind_of,
    node_pools,
    pool_languages,
    what_is_missing,
)
from dragoman.live.snapshot.requirement import JobRequirement, Requirements, stage_languages
from dragoman.live.snapshot.snapshot import RuntimeSnapshot, SnapshotHolder

__all__ = [
    "CellView",
    "JobRequirement",
    "LanguageIndex",
    "NodeFacts",
    "Pair",
    "PipelineStage",
    "PoolRule",
    "PoolShards",
    "Requirements",
    "RuntimeSnapshot",
    "SnapshotHolder",
    "Spoken",
    "count_pools",
    "is_in_a_pool",
    "kind_of",
    "node_pools",
    "pool_languages",
    "stage_languages",
    "what_is_missing",
]
