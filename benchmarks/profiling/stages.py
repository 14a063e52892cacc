"""The stages of a job's way through the server, and which functions belong to each."""

from __future__ import annotations

from collections.abc import Iterable

STAGES: dict[str, tuple[str, ...]] = {
    "frames in": (
        "dragoman.live.gateway.uvicorn_server.SocketProtocol.data_received",
        "dragoman.live.gateway.frame_reader",
        "dragoman.live.gateway.feeds",
        "dragoman.live.gateway.conversation",
        "dragoman.live.gateway.node_handler.NodeHandler.received",
        "dragoman.live.gateway.session_handler.SessionHandler.received",
        "dragoman.live.protocol",
    ),
    "frames out": (
        "dragoman.live.gateway.frame_reader.plain_frame",
        "dragoman.live.gateway.uvicorn_server.SocketProtocol.write",
        "dragoman.live.gateway.uvicorn_server.SocketProtocol._flush",
        "dragoman.live.gateway.connection",
    ),
    "utterance": (
        "dragoman.live.gateway.session_handler",
        "dragoman.live.core.sessions.speech",
        "dragoman.live.core.sessions.session.Session.utterance",
        "dragoman.live.core.sessions.session.Session.audio",
        "dragoman.live.core.sessions.session.Session._take_chunk",
        "dragoman.live.core.sessions.session.Session._speech_of",
        "dragoman.live.core.sessions.session.Session._open",
        "dragoman.live.core.sessions.session.Session._submit",
        "dragoman.live.core.sessions.session.Session._cut",
        "dragoman.live.sessions",
        "dragoman.live.budget",
    ),
    "submit and claim": (
        "dragoman.live.core.dispatcher",
        "dragoman.live.core.driver.JobDriver.submit",
        "dragoman.live.core.driver.JobDriver._enter",
        "dragoman.live.core.memory.MemoryLedger._claim",
        "dragoman.live.core.pending",
        "dragoman.live.ledger.memory.recent",
    ),
    "select and reserve": (
        "dragoman.live.core.driver.JobDriver.look",
        "dragoman.live.core.driver.JobDriver._place",
        "dragoman.live.core.selection",
        "dragoman.live.core.memory.MemoryLedger.place",
        "dragoman.live.core.cells.Cell.reserve",
        "dragoman.live.core.cells.Cell.hold",
        "dragoman.live.ledger.memory.choice",
        "dragoman.live.snapshot",
    ),
    "assign": (
        "dragoman.live.core.driver.JobDriver._placed",
        "dragoman.live.core.driver.JobDriver._tell",
        "dragoman.live.dispatch.assignment",
        "dragoman.live.core.explain",
        "dragoman.live.fleet.registry.Registry.assign",
        "dragoman.live.core.timeouts",
    ),
    "ack and started": (
        "dragoman.live.gateway.node_handler.NodeHandler._ack",
        "dragoman.live.gateway.node_handler.NodeHandler._started",
        "dragoman.live.core.node_messages.NodeMessages.took_step",
    ),
    "result": (
        "dragoman.live.gateway.node_handler.NodeHandler._result",
        "dragoman.live.core.node_messages",
        "dragoman.live.core.driver",
        "dragoman.live.core.memory.MemoryLedger.finish",
        "dragoman.live.core.memory.MemoryLedger._end",
        "dragoman.live.core.cells.Cell.free",
        "dragoman.live.core.telemetry",
        "dragoman.live.fleet",
        "dragoman.observability",
    ),
    "delivery": ("dragoman.live.core.sessions",),
    "client's ack": (
        "dragoman.live.core.sessions.session.Session.heartbeat",
        "dragoman.live.core.sessions.session.Session.acknowledge",
        "dragoman.live.core.sessions.delivery.Unacknowledged.acknowledge",
        "dragoman.live.core.memory.MemoryLedger.release_now",
        "dragoman.live.ledger.memory.kept",
    ),
}
"""Names of modules and functions, by their beginnings; the longest that fits decides."""

OTHER = "everything else"

_BY_LENGTH = sorted(
    ((name, stage) for stage, names in STAGES.items() for name in names),
    key=lambda found: -len(found[0]),
)


def stage_of(function: str) -> str:
    """The stage that a function, named with its module, belongs to."""
    return next((stage for name, stage in _BY_LENGTH if function.startswith(name)), OTHER)


def by_stage(calls: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Calls added up by stage, in the order of a job's way."""
    found = dict.fromkeys((*STAGES, OTHER), 0.0)
    for function, count in calls:
        found[stage_of(function)] += count
    return found
