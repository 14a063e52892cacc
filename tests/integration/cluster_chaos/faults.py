"""What is broken, when, and for how long: drawn from a seed before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from random import Random

import msgspec


class Kind(StrEnum):
    """The ways in which things break."""

    KILL_INSTANCE = "kill_instance"
    PAUSE_INSTANCE = "pause_instance"
    DRAIN_INSTANCE = "drain_instance"
    KILL_NODES = "kill_nodes"
    PAUSE_NODES = "pause_nodes"
    PAUSE_REDIS = "pause_redis"
    EMPTY_REDIS = "empty_redis"
    AGE_REDIS = "age_redis"
    FAIL_OVER_REDIS = "fail_over_redis"
    CUT_FROM_REDIS = "cut_from_redis"
    SLOW_TO_REDIS = "slow_to_redis"
    CUT_DOOR = "cut_door"
    SLOW_DOOR = "slow_door"
    ROLLING_RESTART = "rolling_restart"


REDIS = "redis"
CABLES = "cables"
"""The process of the run: all that nodes, clients, instances and Redis say passes through it."""
EVERYBODY = "everybody"

AT_AN_INSTANCE = frozenset(
    {
        Kind.KILL_INSTANCE,
        Kind.PAUSE_INSTANCE,
        Kind.DRAIN_INSTANCE,
        Kind.CUT_FROM_REDIS,
        Kind.SLOW_TO_REDIS,
        Kind.CUT_DOOR,
        Kind.SLOW_DOOR,
    }
)
AT_NODES = frozenset({Kind.KILL_NODES, Kind.PAUSE_NODES})
LOSES_DATA = frozenset({Kind.EMPTY_REDIS, Kind.AGE_REDIS, Kind.FAIL_OVER_REDIS})
"""After these the promises are weaker: Redis may have forgotten what it had confirmed."""

NOT_ON_MASTERS = frozenset({Kind.FAIL_OVER_REDIS, Kind.CUT_FROM_REDIS, Kind.SLOW_TO_REDIS})
"""What cannot be done to the masters of a Redis Cluster: they have no replicas, and instances speak
to them past their cables."""

_LASTS_SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.KILL_INSTANCE: (0.0, 6.0),
    # Shorter and longer than the others wait for an instance that is silent.
    Kind.PAUSE_INSTANCE: (1.0, 9.0),
    Kind.DRAIN_INSTANCE: (0.0, 0.0),
    Kind.KILL_NODES: (0.0, 4.0),
    # Shorter and longer than a node's heartbeat may stay out.
    Kind.PAUSE_NODES: (1.0, 9.0),
    Kind.PAUSE_REDIS: (0.2, 5.0),
    Kind.EMPTY_REDIS: (0.0, 0.0),
    # How old the dump is that it comes back with.
    Kind.AGE_REDIS: (1.0, 15.0),
    Kind.FAIL_OVER_REDIS: (0.0, 0.5),
    Kind.CUT_FROM_REDIS: (0.0, 6.0),
    Kind.SLOW_TO_REDIS: (2.0, 6.0),
    Kind.CUT_DOOR: (0.0, 3.0),
    Kind.SLOW_DOOR: (1.0, 5.0),
    Kind.ROLLING_RESTART: (0.0, 0.0),
}


class PlannedFault(msgspec.Struct, frozen=True):
    """One fault to come."""

    kind: Kind
    whom: str
    wait_seconds: float
    """Since the fault before it began."""
    lasts_seconds: float


def plan(
    random: Random,
    kinds: Sequence[Kind],
    instances: Sequence[str],
    node_groups: Sequence[str],
    wait_seconds: float,
) -> list[PlannedFault]:
    """Faults of these kinds in this order, each at a drawn victim, one soon after the other."""
    return [
        PlannedFault(
            kind,
            _whom(random, kind, instances, node_groups),
            random.uniform(0.5, 1.5) * wait_seconds,
            random.uniform(*_LASTS_SECONDS[kind]),
        )
        for kind in kinds
    ]


def draw_kinds(random: Random, count: int, without: Collection[Kind] = ()) -> list[Kind]:
    """So many kinds, each as often as the others, in a drawn order."""
    kinds = [kind for kind in Kind if kind not in without]
    rounds = -(-count // len(kinds))
    return [kind for _ in range(rounds) for kind in random.sample(kinds, len(kinds))][:count]


def _whom(random: Random, kind: Kind, instances: Sequence[str], node_groups: Sequence[str]) -> str:
    if kind in AT_AN_INSTANCE:
        return random.choice(instances)
    if kind in AT_NODES:
        return random.choice(node_groups)
    return EVERYBODY if kind is Kind.ROLLING_RESTART else REDIS
