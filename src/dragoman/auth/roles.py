"""Who may do what: the one table of roles that HTTP routes and sockets both read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What a key may be used for."""

    NODE = "node"
    CLIENT = "client"
    EVALUATOR = "evaluator"
    OPERATOR = "operator"


class Permission(StrEnum):
    """Something a key may be allowed to use."""

    NODE_SOCKET = "the node socket"
    SESSION_SOCKET = "the session socket"
    SESSIONS = "sessions"
    JOBS = "jobs"
    NODES = "nodes"
    POOLS = "pools"
    STATS = "stats"
    METRICS = "metrics"
    CLUSTER = "the cluster view"
    CATALOG = "the service catalog"
    DATASETS = "datasets"
    EXPERIMENTS = "experiments"


ALLOWED: Mapping[Role, frozenset[Permission]] = {
    Role.NODE: frozenset({Permission.NODE_SOCKET}),
    Role.CLIENT: frozenset({Permission.SESSION_SOCKET, Permission.SESSIONS, Permission.JOBS}),
    Role.EVALUATOR: frozenset({Permission.DATASETS, Permission.EXPERIMENTS}),
    Role.OPERATOR: frozenset(Permission),
}
"""What each role may use. Operators may do everything."""


def roles_with(permission: Permission) -> list[Role]:
    """The roles that may use it, in the order in which they are declared."""
    return [role for role in Role if permission in ALLOWED[role]]
