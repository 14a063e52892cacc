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
    VIEWER = "viewer"


class Access(StrEnum):
    """What a caller wants with a thing."""

    READ = "read"
    ACT = "act"


class Permission(StrEnum):
    """Something a key may be allowed to use."""

    NODE_SOCKET = "the node socket"
    SESSION_SOCKET = "the session socket"
    SESSIONS = "sessions"
    JOBS = "jobs"
    GLOSSARY = "the glossary"
    USAGE = "usage"
    NODES = "nodes"
    POOLS = "pools"
    STATS = "stats"
    METRICS = "metrics"
    CLUSTER = "the cluster view"
    CATALOG = "the service catalog"
    DATASETS = "datasets"
    EXPERIMENTS = "experiments"
    AUDIT = "the audit log"
    SETTINGS = "the settings"


ALLOWED: Mapping[Role, frozenset[Permission]] = {
    Role.NODE: frozenset({Permission.NODE_SOCKET}),
    Role.CLIENT: frozenset(
        {
            Permission.SESSION_SOCKET,
            Permission.SESSIONS,
            Permission.JOBS,
            Permission.GLOSSARY,
            Permission.USAGE,
        }
    ),
    Role.EVALUATOR: frozenset({Permission.DATASETS, Permission.EXPERIMENTS}),
    Role.OPERATOR: frozenset(Permission),
    Role.VIEWER: frozenset(Permission) - {Permission.NODE_SOCKET, Permission.SESSION_SOCKET},
}
"""What each role may use. Operators may do everything."""

READS_ONLY = frozenset({Role.VIEWER})
"""Roles that see what they may use, and change none of it."""

SEES_EVERY_TENANT = frozenset({Role.OPERATOR, Role.VIEWER})


def may(role: Role, permission: Permission, access: Access) -> bool:
    """Whether keys of the role may use the thing so."""
    return permission in ALLOWED[role] and (access is Access.READ or role not in READS_ONLY)


def roles_with(permission: Permission, access: Access) -> list[Role]:
    """The roles that may use it so, in the order in which they are declared."""
    return [role for role in Role if may(role, permission, access)]
