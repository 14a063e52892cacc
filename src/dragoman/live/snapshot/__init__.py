"""The runtime domain: an immutable view of the fleet that decisions are made from."""

from dragoman.live.snapshot.cell import CellView, node_pairs
from dragoman.live.snapshot.facts import NodeFacts
from dragoman.live.snapshot.requirement import (
    Pair,
    PoolRule,
    Requirement,
    Requirements,
    Spoken,
    Stage,
    pool_languages,
    stage_languages,
)
from dragoman.live.snapshot.snapshot import RuntimeSnapshot, Shards, SnapshotHolder

__all__ = [
    "CellView",
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
    "node_pairs",
    "pool_languages",
    "stage_languages",
]
