"""Settings that limit what callers and nodes may use of one server."""

from __future__ import annotations

from pydantic import Field

from dragoman.settings.section import Bytes, Count, CountOrZero, SecondsOrZero, Section


class LimitSettings(Section):
    """Limits on connections, messages, work in flight and memory."""

    max_frame_bytes: Bytes = Field(
        default=4194304,
        description="Largest message on a socket, in bytes; a larger one closes it (1009).",
    )
    max_sessions: Count = Field(
        default=10000,
        description="Maximum sessions open at once on one instance; the same number of sockets may "
        "wait for their session_init.",
    )
    sessions_per_tenant: CountOrZero = Field(
        default=0, description="Maximum sessions open at once for one tenant; 0: no limit."
    )
    max_inflight_per_session: Count = Field(
        default=64, description="Maximum utterances of one session without a delivered result."
    )
    max_inflight_per_tenant: CountOrZero = Field(
        default=0, description="Maximum unfinished jobs of one tenant; 0: no limit."
    )
    pending_per_pair: Count = Field(
        default=1000,
        description="Maximum jobs that wait for a node, per language pair on one instance.",
    )
    session_queue: Count = Field(
        default=256, description="Maximum results kept for a session until it acknowledges them."
    )
    session_queue_bytes: Bytes = Field(
        default=8388608,
        description="Maximum bytes kept for a session: audio, and results not yet acknowledged.",
    )
    node_queue: Count = Field(
        default=1024, description="Maximum messages waiting to be sent to one node."
    )
    node_queue_bytes: Bytes = Field(
        default=33554432, description="Maximum bytes waiting to be sent to one node."
    )
    buffered_bytes: Bytes = Field(
        default=1073741824,
        description=(
            "Maximum bytes that one instance keeps for all callers and nodes: audio, inputs, "
            "results, unfinished messages and requests. When it is reached, the instance drops "
            "results of ended jobs whose lease has passed, before their retention ends."
        ),
    )
    messages_per_second: Count = Field(
        default=500,
        description="Maximum messages per second on one session socket; each ping and each "
        "fragment counts as one; more closes it (4429).",
    )
    node_messages_per_second: Count = Field(
        default=20000,
        description="Maximum messages per second on one node socket, counted in the same way; "
        "more closes it (4429).",
    )
    sockets_per_address: CountOrZero = Field(
        default=20000,
        description="Maximum WebSockets open at once from one address; the same number of other "
        "connections is allowed; an IPv6 /64 network counts as one address; 0: no limit.",
    )
    sockets_per_key: CountOrZero = Field(
        default=20000,
        description="Maximum WebSockets open at once with one API key on one instance; 0: no "
        "limit.",
    )
    request_header_seconds: SecondsOrZero = Field(
        default=15,
        description="How long a caller may take from connecting to the end of its request headers, "
        "in seconds; 0: no limit.",
    )
    request_body_seconds: SecondsOrZero = Field(
        default=60,
        description="How long a caller may take to send its request body, plus one second for each "
        "kilobyte received, in seconds.",
    )
    auth_failures_per_minute: Count = Field(
        default=30,
        description="Wrong keys per minute from one address after which it is refused.",
    )
