"""Settings that bound what callers and nodes may use of one server."""

from __future__ import annotations

from pydantic import Field

from dragoman.settings.section import Bytes, Count, CountOrZero, SecondsOrZero, Section


class LimitSettings(Section):
    """Bounds on connections, messages, work in flight and memory."""

    max_frame_bytes: Bytes = Field(
        default=4194304,
        description="Largest message on a socket, in bytes; a larger one closes it (1009).",
    )
    max_sessions: Count = Field(
        default=10000,
        description="Most sessions open at once on one instance, and most sockets beside them that "
        "wait for their session_init.",
    )
    sessions_per_tenant: CountOrZero = Field(
        default=0, description="Most sessions open at once for one tenant; 0: no limit."
    )
    max_inflight_per_session: Count = Field(
        default=64, description="Most utterances of one session that are not yet delivered."
    )
    max_inflight_per_tenant: CountOrZero = Field(
        default=0, description="Most jobs of one tenant that have not ended; 0: no limit."
    )
    pending_per_pair: Count = Field(
        default=1000,
        description="Most jobs that wait for a node, per language pair on one instance.",
    )
    session_queue: Count = Field(
        default=256, description="Most results kept for a session until it acknowledges them."
    )
    session_queue_bytes: Bytes = Field(
        default=8388608,
        description="Most bytes kept for a session: results not acknowledged, audio.",
    )
    node_queue: Count = Field(
        default=1024, description="Most messages waiting to be sent to one node."
    )
    node_queue_bytes: Bytes = Field(
        default=33554432, description="Most bytes waiting to be sent to one node."
    )
    buffered_bytes: Bytes = Field(
        default=1073741824,
        description=(
            "Most bytes that one instance keeps for others: audio, inputs, results, unfinished "
            "messages and requests."
        ),
    )
    messages_per_second: Count = Field(
        default=500,
        description="Most messages a second on one session socket, with each ping and each "
        "fragment counted as one; more closes it (4429).",
    )
    node_messages_per_second: Count = Field(
        default=20000,
        description="Most messages a second on one node socket, counted in the same way; more "
        "closes it (4429).",
    )
    sockets_per_address: CountOrZero = Field(
        default=20000,
        description="Most WebSockets open at once from one address, and most other connections "
        "beside them; an IPv6 network of 64 bits is one address; 0: no limit.",
    )
    sockets_per_key: CountOrZero = Field(
        default=20000,
        description="Most WebSockets open at once with one API key, on one instance; 0: no limit.",
    )
    request_header_seconds: SecondsOrZero = Field(
        default=15,
        description="How long a caller may take to say what it asks for, once it is connected, "
        "in seconds; 0: no limit.",
    )
    request_body_seconds: SecondsOrZero = Field(
        default=60,
        description="How long a caller may take to send the rest of its request, besides a second "
        "for each kilobyte that has come, in seconds.",
    )
    auth_failures_per_minute: Count = Field(
        default=30,
        description="Most wrong keys a minute from one address before it is turned away.",
    )
