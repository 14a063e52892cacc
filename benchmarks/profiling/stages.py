"""The stages of a job's way through the server, and which functions belong to each."""

from __future__ import annotations

from collections.abc import Iterable

STAGES: dict[str, tuple[str, ...]] = {
    "frames in": (
        "dragoman.live.gateway.uvicorn_server.SocketProtocol.data_received",
        "dragoman.live.gateway.frame_reader",
        "dragoman.live.gateway.feeds",
        "dragoman.live.gateway.conversation",
        "dragoman.live.protocol",
    ),
    "frames out": (
        "dragoman.live.gateway.frame_reader.frame_head",
        "dragoman.live.gateway.uvicorn_server.SocketProtocol.write",
        "dragoman.live.gateway.uvicorn_server.SocketProtocol.flush",
        "dragoman.live.gateway.uvicorn_server.Turn",
        "dragoman.live.gateway.connection",
    ),
    "utterance": (
        "dragoman.live.gateway.session_handler",
        "dragoman.live.sessions.speech",
        "dragoman.live.sessions.session.Session.utterance",
        "dragoman.live.sessions.input",
        "dragoman.live.sessions.delivery.Deliveries.expect",
        "dragoman.live.sessions.session.Session._speech_of",
        "dragoman.live.sessions.session.Session._make_jobs",
        "dragoman.live.sessions.session.Session._start",
        "dragoman.live.sessions.session.Session.spoken",
        "dragoman.live.sessions.audio",
        "dragoman.live.sessions.languages",
        "dragoman.live.sessions.orders",
        "dragoman.live.sessions.pressure",
        "dragoman.live.sessions.segmenter",
        "dragoman.live.sessions.segments",
        "dragoman.live.sessions.timeline",
        "dragoman.live.budget",
    ),
    "submit and claim": (
        "dragoman.live.dispatch.dispatcher",
        "dragoman.live.dispatch.driver.JobDriver.submit",
        "dragoman.live.dispatch.driver.JobDriver._enter",
        "dragoman.live.dispatch.memory_ledger.MemoryLedger._claim",
        "dragoman.live.dispatch.pending",
        "dragoman.live.ledger.memory.recent",
    ),
    "select and reserve": (
        "dragoman.live.dispatch.driver.JobDriver.look",
        "dragoman.live.dispatch.driver.JobDriver._place",
        "dragoman.live.dispatch.selection",
        "dragoman.live.dispatch.memory_ledger.MemoryLedger.place",
        "dragoman.live.dispatch.cells.Cell.reserve",
        "dragoman.live.dispatch.cells.Cell.hold",
        "dragoman.live.ledger.memory.choice",
        "dragoman.live.snapshot",
    ),
    "assign": (
        "dragoman.live.dispatch.driver.JobDriver._placed",
        "dragoman.live.dispatch.driver.JobDriver._tell",
        "dragoman.live.dispatch.assignment",
        "dragoman.live.dispatch.explain",
        "dragoman.live.fleet.registry.Registry.assign",
        "dragoman.live.dispatch.timeouts",
    ),
    "ack and started": (
        "dragoman.live.gateway.node_handler.NodeHandler._ack",
        "dragoman.live.gateway.node_handler.NodeHandler._started",
        "dragoman.live.dispatch.node_messages.NodeMessages.took_step",
    ),
    "result": (
        "dragoman.live.gateway.node_handler.NodeHandler._result",
        "dragoman.live.dispatch.node_messages",
        "dragoman.live.dispatch.driver",
        "dragoman.live.dispatch.memory_ledger.MemoryLedger.finish",
        "dragoman.live.dispatch.memory_ledger.MemoryLedger._end",
        "dragoman.live.dispatch.cells.Cell.free",
        "dragoman.live.dispatch.telemetry",
        "dragoman.live.fleet",
        "dragoman.observability",
    ),
    "delivery": ("dragoman.live.sessions",),
    "client's ack": (
        "dragoman.live.sessions.session.Session.heartbeat",
        "dragoman.live.sessions.session.Session.acknowledge",
        "dragoman.live.sessions.delivery.Unacknowledged.acknowledge",
        "dragoman.live.dispatch.memory_ledger.MemoryLedger.release_now",
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
