"""What goes over ``/ws/console``: what a page wants to watch, and how that changes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from dragoman.ids import InstanceId, NodeId, SessionId
from dragoman.live.protocol import NodeHealth, ServiceType, SessionView


class Topic(StrEnum):
    """Something that a page may watch."""

    OVERVIEW = "overview"
    NODES = "nodes"
    PAIRS = "pairs"
    SESSIONS = "sessions"
    INSTANCES = "instances"


class Watch(msgspec.Struct, frozen=True, tag_field="type", tag="watch"):
    """From the page: what it shows now. It replaces what the page watched before."""

    topics: tuple[Topic, ...]
    cursors: Mapping[Topic, str] = {}
    """Where the page stands, from the messages that it had before it lost its socket."""


class NodeRow(msgspec.Struct, frozen=True):
    """A node as lists show it; ``GET /nodes/{id}`` tells more."""

    node_id: NodeId
    status: NodeHealth
    reason: str | None
    """Why it gets no jobs, or fewer than it could."""
    cell: int
    slots: int
    used: int
    services: tuple[ServiceType, ...]
    """What it can do now."""
    languages: tuple[str, ...]
    instance_id: InstanceId | None


class PairRow(msgspec.Struct, frozen=True):
    """A language pair: who serves it, and how much room there is."""

    pair: str
    nodes: int
    ready: int
    slots: int
    free: int
    refused: int
    """Jobs refused in the last minute."""


class InstanceRow(msgspec.Struct, frozen=True):
    """An instance of the cluster, as it last said."""

    instance_id: InstanceId
    alive: bool
    nodes: int
    sessions: int
    inbox_length: int
    pending: int
    dead_letters: int
    draining: bool


class Percentiles(msgspec.Struct, frozen=True):
    """Over the last minute, read from a histogram: as exact as its buckets are narrow."""

    p50_ms: float
    p99_ms: float


class ServerMessage(msgspec.Struct, frozen=True, tag_field="type"):
    """From the server: the present state of a topic, or what changed of it."""

    cursor: str
    """Named in `cursors` it makes the server go on from here. Of a change in several messages, that
    of the last one counts."""


class OverviewMessage(ServerMessage, frozen=True, tag="overview"):
    """The fleet in numbers."""

    at: str
    nodes: Mapping[NodeHealth, int]
    slots: int
    slots_used: int
    sessions: int
    jobs_running: int
    jobs_waiting: int
    jobs_per_second: float
    """Made over the last ten seconds."""
    succeeded: int
    """Since the instances that are present started."""
    failed: int
    job_duration: Percentiles | None
    dispatch_latency: Percentiles | None
    refused: Mapping[str, int]
    """Jobs refused in the last minute, by error code."""
    problem: str | None = None
    """Why the numbers are old, when they are."""
    refused_reasons: Mapping[str, int] = {}
    """The same jobs by each reason for which nodes were left out, such as ``no_free_slot``; a job
    may have several."""


class NodesMessage(ServerMessage, frozen=True, tag="nodes"):
    """Nodes that changed. At first, and after a long absence, all of them, in several messages."""

    reset: bool
    """Forget every node known before this message."""
    changed: list[NodeRow]
    gone: list[NodeId]
    more: bool
    """Further messages of the same change follow at once."""


class PairsMessage(ServerMessage, frozen=True, tag="pairs"):
    """Language pairs that changed."""

    reset: bool
    changed: list[PairRow]
    gone: list[str]
    more: bool
    cut: bool = False
    """More pairs are served than these; ``GET /pools`` has all of them."""


class SessionsMessage(ServerMessage, frozen=True, tag="sessions"):
    """Sessions of the key's tenant that changed, or that a page must ask for all of them again."""

    active: int
    """Open sessions of all instances and tenants."""
    again: bool
    """What changed is not told: the cursor is unknown or too old, too much changed, or sessions of
    other instances did. ``GET /sessions`` has them."""
    changed: list[SessionView] = []
    gone: list[SessionId] = []


class InstancesMessage(ServerMessage, frozen=True, tag="instances"):
    """Every instance of the cluster."""

    items: list[InstanceRow]


ConsoleMessage = OverviewMessage | NodesMessage | PairsMessage | SessionsMessage | InstancesMessage
